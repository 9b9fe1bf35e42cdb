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
# error: type: TypeError: `-` does not work on String and Int64
def f(b):
    return b - 2
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
---
# Shifts, as in Python: whole numbers that have to fit.
# call: [12, 5]
# types: ["Int", "Int"]
# expect: [384, 0, -384, -1, 25]
# call: [-1, 63]
# types: ["Int", "Int"]
# error: runtime: Overflow
# at: -a << b
# call: [1, 63]
# types: ["Int", "Int"]
# error: runtime: Overflow
# call: [0, 100]
# types: ["Int", "Int"]
# expect: [0, 0, 0, 0, 25]
# call: [1, -1]
# types: ["Int", "Int"]
# error: runtime: ValueError: negative shift count
def f(a, b):
    c = 3
    c <<= 4
    c |= 1
    c ^= 3
    c >>= 1
    return a << b, a >> b, -a << b, -a >> b, c
---
# call: [-1]
# types: ["Int"]
# expect: [-9223372036854775808, -1, -8, -1, 4]
# type: (Int64, Int64, Int64, Int64, Int64)
def f(a):
    return a << 63, a >> 200, a << 3, a >> 1, Int8(1) << 2
---
# `round` to decimals, of two as near to the even one, by the exact value.
# call: [2.675, 2]
# types: ["Float", "Int"]
# expect: [2.67, 1.0, 2.68]
# call: [2.5, 0]
# types: ["Float", "Int"]
# expect: [2.0, 1.0, 2.5]
# call: [-0.125, 2]
# types: ["Float", "Int"]
# expect: [-0.12, 1.0, -0.12]
# call: [1250.0, -2]
# types: ["Float", "Int"]
# expect: [1200.0, 1.0, 1250.0]
# call: ["Infinity", 1]
# types: ["Float", "Int"]
# expect: ["Infinity", 1.0, "Infinity"]
# call: [1e300, 2]
# types: ["Float", "Int"]
# expect: [1e300, 1.0, 1e300]
# call: [1.0, 23]
# types: ["Float", "Int"]
# error: runtime: ValueError: `round` to 23 digits: at most 22
def f(x, n):
    return round(x, n), round(1.005, 2), round(x + 0.001, ndigits=2)
---
# call: [17, 5]
# types: ["Int", "Int"]
# expect: [[3, 2], [-4, 3], 17, [3.0, 2.0]]
# call: [17, 0]
# types: ["Int", "Int"]
# error: runtime: ZeroDivisionError: integer division or modulo by zero
def f(a, b):
    q, r = divmod(a, b)
    return divmod(a, b), divmod(-a, b), q * b + r, divmod(17.0, float(b))
---
# call: [0.5]
# types: ["Float"]
# expect: [0.5235987755982989, 1.0471975511965979, 0.4636476090008061, 0.5210953054937474, 1.1276259652063807, -0.3010299956639812, 0, 0.5, false, true]
# tolerance: 1e-15
# call: [2.0]
# types: ["Float"]
# error: runtime: ValueError: math domain error
def f(x):
    return asin(x), acos(x), atan(x), sinh(x), cosh(x), log10(x), trunc(x), fabs(-x), isnan(x), isfinite(x)
---
# call: [3]
# types: ["Int"]
# error: type: TypeError: Int64 has no length
# at: len(n)
def f(n):
    return len(n)
---
# Annotations say what a result is.
# call: [3]
# expect: 3.0
# type: Float64
def f(x: Int) -> Float:
    return x
---
# call: [3, ["a"]]
# expect: [1.5, "a"]
# type: (Float64, String)
def f(x: int, s: list[str]) -> tuple[float, str]:
    return x / 2, s[0]
---
# call: [3]
# error: type: the result of `f` is Int64, its annotation says String
def f(x: int) -> str:
    return x
---
# call: [3, 4]
# types: ["Int", "Int"]
# error: parse: the parameter `a` is there twice
# at: a
def f(a, a):
    return a
---
# Where only the truth of an operand of `and` and `or` counts, operands may be of several types.
# call: f [[1, 2], 3, "a"]
# types: ["[Int]", "Int", "String"]
# expect: [1, 3, [2, 4], true, false]
# call: f [[], 0, ""]
# types: ["[Int]", "Int", "String"]
# expect: [0, 0, [2, 4], false, true]
def f(xs, n, s):
    first = 0
    if xs and xs[0] > 0:
        first = xs[0]
    steps = 0
    while n and s != "b":
        n -= 1
        steps += 1
    assert s or steps == 0 or n == 0
    even = [x for x in range(5) if x and not (x % 2 or s == "c")]
    return first, steps, even, bool(xs and (s or n)), not (s or xs or first > 0)
---
# What is not needed is not evaluated.
# call: f [0]
# types: ["Int"]
# expect: -1
# call: f [4]
# types: ["Int"]
# expect: 1
# call: f [20]
# types: ["Int"]
# expect: 2
def f(n):
    if not n or 10 // n > 8:
        return -1
    return 1 if n and 12 // n and 12 // n < 5 else 2
---
# The value itself has one type.
# call: f [3]
# types: ["Int"]
# error: type: the value is Bool on one path and Int64 on another
# at: n and n > 2
def f(n):
    return n and n > 2
---
# Numbers of requests are read to the last bit.
# call: f [123456789.12345679, 1000000000000000.5]
# types: ["Float", "Float"]
# expect: [true, true]
def f(x, y):
    return x == 123456789.12345679, y == 1000000000000000.5
