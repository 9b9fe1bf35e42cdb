# Arithmetic as in Python: floored division, powers, true division.
# call: floor [7, -2]
# types: ["Int", "Int"]
# expect: [-4, -1]
# type: (Int64, Int64)
# call: floor [-7, 2]
# types: ["Int", "Int"]
# expect: [-4, 1]
# call: floor [7.5, -2.0]
# types: ["Float", "Float"]
# expect: [-4.0, -0.5]
# call: floor [7, 0]
# types: ["Int", "Int"]
# error: runtime: floor, line 3: ZeroDivisionError: integer division or modulo by zero
# at: a // b
# call: floor [-9223372036854775808, -1]
# types: ["Int", "Int"]
# error: runtime: Overflow
# call: floor [1.0, 0.0]
# types: ["Float", "Float"]
# error: runtime: ZeroDivisionError: float floor division by zero
# call: quotient [7, 2]
# types: ["Int", "Int"]
# expect: 3.5
# call: quotient [7, 0]
# types: ["Int", "Int"]
# error: runtime: ZeroDivisionError: division by zero
# call: power [3, 4]
# types: ["Int", "Int"]
# expect: 81
# call: power [2, -1]
# types: ["Int", "Int"]
# error: runtime: ValueError: a negative power
# call: power [3, 0]
# types: ["Int", "Int"]
# expect: 1
# call: power [10, 19]
# types: ["Int", "Int"]
# error: runtime: Overflow: integer overflow
# call: power [2.0, 0.5]
# types: ["Float", "Float"]
# expect: 1.4142135623730951
# call: power [-8.0, 0.5]
# types: ["Float", "Float"]
# error: runtime: ValueError
# call: power [0.0, -1.0]
# types: ["Float", "Float"]
# error: runtime: ZeroDivisionError
# call: square [-9]
# types: ["Int"]
# expect: [81, 0.012345679012345678, -729]
# call: square [9223372036854775807]
# types: ["Int"]
# error: runtime: Overflow
# line: 12

def floor(a, b):
    return a // b, a % b

def quotient(a, b):
    return a / b

def power(a, b):
    return a ** b

def square(x):
    return x ** 2, x ** -2, x ** 3
---
# Comparisons, chains, logic, conditional expressions.
# call: [1, 2, 3]
# types: ["Int", "Int", "Int"]
# expect: [true, false, 5, true, -1]
# call: [3, 2, 3]
# types: ["Int", "Int", "Int"]
# expect: [false, true, 5, false, 1]
def f(a, b, c):
    return a < b < c, not a < b, (a and b) + c, a == 1 or b == 2 and c != 3, 1 if a > b else -1
---
# call: [0, 7]
# types: ["Int", "Int"]
# note: what is not evaluated does not fail
# expect: [false, 7, true]
def f(a, b):
    return a != 0 and b // a > 1, a or b, a == 0 or b // a > 1
---
# Numbers go to the wider kind; text.
# call: [1, 2.5, "ab"]
# types: ["Int", "Float", "String"]
# expect: [3.5, "abc", 3, true, true, "b", "b", [1.0, 2.5]]
# type: (Float64, String, Int64, Bool, Bool, String, String, [Float64])
def f(a, b, s):
    t = s + "c"
    return a + b, t, len(t), "bc" in t, s < t, t[1], s[-1], [a, b]
---
# call: [9223372036854775807]
# types: ["Int"]
# error: runtime: f, line 2: Overflow: integer overflow
# at: x + 1
def f(x):
    return x + 1
---
# call: [true]
# types: ["Bool"]
# error: type: TypeError: `+` does not work on Bool and Int64
# at: b + 1
def f(b):
    return b + 1
---
# call: ["a"]
# types: ["String"]
# error: type: TypeError: `*` does not work on String and Int64
def f(b):
    return b * 2
---
# Small integers stay small among themselves, and are checked.
# call: [100, 27]
# types: ["Int8", "Int8"]
# expect: 127
# type: Int8
# call: [100, 28]
# types: ["Int8", "Int8"]
# error: runtime: Overflow
def f(a, b):
    return a + b
---
# Built-in functions of numbers.
# call: [2.5, -3]
# types: ["Float", "Int"]
# expect: [2, 2, 3, 2, 3, -3.0, true, 2.5, -3, 4]
# type: (Int64, Int64, Int64, Int64, Int64, Float64, Bool, Float64, Int64, Int64)
# call: [3.5, -3]
# types: ["Float", "Int"]
# expect: [3, 3, 4, 4, 3, -3.0, true, 3.5, -3, 4]
def f(x, n):
    return int(x), floor(x), ceil(x), round(x), abs(n), float(n), bool(n), max(x, n), min(n, 5), max(1, 4, 2)
---
# call: [4.0]
# types: ["Float"]
# expect: [2.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
# call: [-1.0]
# types: ["Float"]
# error: runtime: ValueError: math domain error
def f(x):
    z = x - x
    return sqrt(x), exp(z), log(z + 1.0), sin(z), cos(z), tan(z), tanh(z), erf(z)
---
# call: ["NaN"]
# types: ["Float"]
# error: runtime: ValueError: cannot convert NaN to an integer
# call: [1e300]
# types: ["Float"]
# error: runtime: OverflowError
def f(x):
    return int(x)
