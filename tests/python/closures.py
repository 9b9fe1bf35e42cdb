# N55: closures read what they capture when they are called.
# call: f [10]
# types: ["Int"]
# expect: [13, 23, [11, 12], 6]
def f(n):
    k = 3
    def add(x):
        return x + k
    a = add(n)
    k = 13
    b = add(n)
    c = [(lambda y: y + n)(z) for z in range(1, 3)]
    acc = []
    def push(x):
        acc.append(x)
    push(1)
    push(2)
    push(3)
    return a, b, c, sum(acc)
---
# A function that makes functions.
# expect: [7, 12]
def adder(n):
    def add(x):
        return x + n
    return add

def scale(n):
    return lambda x: n * x

def f():
    g = adder(3)
    h = scale(3)
    return g(4), h(4)
---
# call: f [true]
# types: ["Bool"]
# error: type: `g` is one function on one path and another on another
def f(c):
    if c:
        g = lambda x: x
    else:
        g = lambda x: x + 1
    return g(1)
---
# error: type: the result escapes: a function cannot be returned to the caller
def f():
    return lambda x: x
---
# N34, N56: parallel map with a closure; list append and then map.
# call: f [5]
# types: ["Int"]
# expect: [[0, 5, 10, 15, 20], [1, 2, 3, 4, 5]]
def f(n):
    L = []
    for i in range(n):
        L.append(i)
    M = map(lambda i: i * n, L)
    return list(M), list(map(lambda i: i + 1, L))
---
# Assigning in an inner function makes a variable of its own.
# expect: [1, 2]
def f():
    x = 1
    def g():
        x = 2
        return x
    y = g()
    return x, y
---
# error: type: unsupported: nonlocal
def f():
    x = 1
    def g():
        nonlocal x
        x = 2
    g()
    return x
---
# Defaults are evaluated where a function is defined.
# call: [1]
# types: ["Int"]
# expect: [3, 12, [0, 10, 20], 8, 5]
def f(n):
    k = 2
    def g(x, y=k):
        return x + y
    h = lambda x, y=k, z=1: x * 10 + y * z
    k = 100
    steps = ()
    for i in unroll(range(3)):
        steps = steps + ((lambda x, i=i: x * i * 10),)
    return g(n), h(n), [steps[0](n), steps[1](n), steps[2](n)], (lambda a, b=4: a * 2 + b)(2), (lambda a, b=4: a + b)(a=1)
