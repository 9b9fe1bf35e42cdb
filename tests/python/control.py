# Branches and returns.
# call: tier [5]
# types: ["Int"]
# expect: 0.0
# call: tier [50]
# types: ["Int"]
# expect: 0.05
# call: tier [500]
# types: ["Int"]
# expect: 0.1
# call: sign [-5]
# types: ["Int"]
# expect: "negative"
# call: sign [0]
# types: ["Int"]
# expect: "zero"
# call: sign [1]
# types: ["Int"]
# expect: "positive"
# call: net [100.0, 5]
# types: ["Float", "Int"]
# expect: 100.0
# call: net [200.0, 0]
# types: ["Float", "Int"]
# error: runtime: net, line 15: ValueError: quantity must be positive
def tier(q):
    return 0.0 if q < 10 else 0.05 if q < 100 else 0.1

def sign(x):
    if x < 0:
        s = "negative"
    elif x == 0:
        return "zero"
    else:
        s = "positive"
    return s

def net(price, q):
    if q <= 0:
        raise ValueError("quantity must be positive")
    return price * (1 - tier(q))
---
# Loops with break, continue, else.
# call: total [10]
# types: ["Int"]
# expect: 45
# call: collatz [27]
# types: ["Int"]
# expect: 111
# call: first [[3, 5, 8, 9], 2]
# types: ["[Int]", "Int"]
# expect: 2
# call: first [[3, 5, 7], 2]
# types: ["[Int]", "Int"]
# expect: -1
# call: odd [10]
# types: ["Int"]
# expect: 25
# call: pairs [4]
# types: ["Int"]
# expect: [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
# call: steps [10, 0, -3]
# types: ["Int", "Int", "Int"]
# expect: [10, 7, 4, 1]
# call: steps [0, 10, 4]
# types: ["Int", "Int", "Int"]
# expect: [0, 4, 8]
# call: steps [0, 10, 0]
# types: ["Int", "Int", "Int"]
# error: runtime: ValueError: the step of `range` is zero
def total(n):
    s = 0
    for i in range(n):
        s += i
    return s

def collatz(n):
    count = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        count += 1
    return count

def first(xs, d):
    for i in range(len(xs)):
        if xs[i] % d == 0:
            found = i
            break
    else:
        return -1
    return found

def odd(n):
    s = 0
    for i in range(n):
        if i % 2 == 0:
            continue
        s += i
    return s

def pairs(n):
    out = []
    for i in range(n):
        for j in range(i + 1, n):
            out.append((i, j))
    return out

def steps(a, b, c):
    out = []
    for i in range(a, b, c):
        out.append(i)
    return out
---
# A return out of two loops, a while with else.
# call: find [[[1, 2], [3, 4]], 3]
# types: ["[[Int]]", "Int"]
# expect: [1, 0]
# call: find [[[1, 2], [3, 4]], 5]
# types: ["[[Int]]", "Int"]
# expect: [-1, -1]
# call: root [17]
# types: ["Int"]
# expect: 4
# call: root [-1]
# types: ["Int"]
# expect: -2
def find(xss, x):
    for i in range(len(xss)):
        for j in range(len(xss[i])):
            if xss[i][j] == x:
                return i, j
    return -1, -1

def root(n):
    i = 0
    while i * i <= n:
        i += 1
        if i > 1000:
            break
    else:
        if n < 0:
            return -2
    return i - 1
---
# Types settle over a loop.
# call: [3]
# types: ["Int"]
# expect: 4.5
# type: Float64
def f(n):
    x = n
    for i in range(3):
        x = x + 0.5
    return x
---
# What is not assigned on some path.
# call: [true]
# types: ["Bool"]
# expect: 1
# call: [false]
# types: ["Bool"]
# error: runtime: UnboundLocalError: `x` is read before it is assigned
# line: 4
def f(c):
    if c:
        x = 1
    return x
---
# error: type: UnboundLocalError
# line: 2
def f():
    y = x
    x = 1
    return y
---
# call: [true]
# types: ["Bool"]
# error: type: `x` is String on one path and Int64 on another
def f(c):
    x = 1
    if c:
        x = "a"
    return x
---
# call: [3]
# types: ["Int"]
# error: type: the result of `f` is None on one path and Int64 on another
def f(n):
    if n > 2:
        return 1
---
# Assertions.
# call: [3]
# types: ["Int"]
# expect: 3
# call: [-3]
# types: ["Int"]
# error: runtime: f, line 2: AssertionError: x must be positive
def f(x):
    assert x > 0, "x must be positive"
    return x
---
# error: type: unsupported: import os
import os
def f():
    return 1
---
# error: type: the name `y` is not defined
# at: y
def f():
    return y
---
# error: type: unsupported: print
def f():
    print(1)
---
# call: [1]
# error: type: the type of the argument `x` is not known
def f(x):
    return x
---
# Nothing is returned.
# expect: null
# type: None
def f():
    pass
---
# A jump needs a loop, also where the run never comes.
# error: type: `continue` outside of a loop
# at: continue
def f():
    x = 1
    if x > 1:
        continue
    return x
---
# error: type: `break` outside of a loop
# at: break
def f(n):
    for i in range(n):
        def g():
            break
    else:
        pass
    return n
---
# error: type: `break` outside of a loop
# line: 5
def f(n):
    while n > 3:
        n -= 1
    else:
        break
    return n
