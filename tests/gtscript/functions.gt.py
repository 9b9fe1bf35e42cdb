# call: {"a": [[[1, 2]], [[4, 8]], [[16, 32]]], "b": [[[0, 0]]]}
# note: an offset on a parameter adds to those of the argument
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[12.0, 24.0]]]}}
@gtscript.function
def delta(x):
    return x[1, 0, 0] - x

@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = delta(a[1, 0, 0])
---
# call: {"a": [[[1, 2]], [[4, 8]], [[16, 32]]], "b": [[[0, 0]]]}
# note: of an expression, twice
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[9.0, 18.0]]]}}
@gtscript.function
def delta(x):
    return x[1, 0, 0] - x

@gtscript.function
def second(x):
    y = delta(x)
    z = y[1, 0, 0] - y
    return z

@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = second(a + 1)
---
# call: {"a": [[[1, -2]]], "b": [[[0, 0]]], "w": 3}
# note: by name, defaults, branches, externals, constants
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[31.0, -59.0]]]}}
@gtscript.function
def scale(x, factor=2, *, bias=0):
    from __externals__ import unit
    if x > 0:
        y = x * factor
    else:
        y = x * factor - bias
    y += bias
    return y * unit

@stencil(externals={"unit": 5 * 2, "one": True})
def f(a: Field[float64], b: Field[float64], w: float64):
    from __externals__ import unit, one
    with computation(PARALLEL), interval(...):
        b = scale(a, bias=0, factor=w) + one
---
# call: {"a": [[[3]]], "b": [[[0]]]}
# note: a function as an external
# domain: [1, 1, 1]
# expect: {"b": {"data": [[[9.0]]]}}
@gtscript.function
def square(x):
    return x * x

@gtscript.stencil(externals={"op": square})
def f(a: Field[float64], b: Field[float64]):
    from __externals__ import op
    with computation(PARALLEL), interval(...):
        b = op(a)
---
# call: {"a": [1, 2, 3, 4], "b": [0, 0, 0, 0]}
# note: externals as bounds and offsets
# domain: [1, 1, 4]
# expect: {"b": {"data": [0.0, 1.0, 2.0, 0.0]}}
@gtscript.stencil(externals={"lo": 1, "hi": -1, "back": -1})
def f(a: Field[K, float64], b: Field[K, float64]):
    from __externals__ import lo, hi, back
    with computation(PARALLEL), interval(lo, hi):
        b = a[back]
---
# call: {"b": [[[0]]]}
# note: doubled twenty times, it is still one value
# domain: [1, 1, 1]
# expect: {"b": {"data": [[[1048576.0]]]}}
@gtscript.function
def d1(x):
    return x + x
@gtscript.function
def d4(x):
    return d1(d1(d1(d1(x))))
@gtscript.function
def d16(x):
    return d4(d4(d4(d4(x))))

@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = b + 1
        b = d4(d16(b))
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: `odd` is recursive; functions cannot call themselves
@gtscript.function
def odd(x):
    return even(x - 1)
@gtscript.function
def even(x):
    return odd(x - 1)

@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = even(b)
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: a function has a single `return`, at its end
# line: 4
@gtscript.function
def g(x):
    if x > 0:
        return 1
    return 2

@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = g(b)
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: `g` must end in `return` with a value
@gtscript.function
def g(x):
    y = x

@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = 1
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: `g` takes 1 arguments, found 2
# at: g(b, 1)
@gtscript.function
def g(x):
    return x

@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = g(b, 1)
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: `g` needs an argument for `y`
@gtscript.function
def g(x, y):
    return x

@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = g(b)
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: unknown name `b`; a function sees its parameters and externals only
@gtscript.function
def g(x):
    return x + b

@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = g(b)
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: `c` is no external of the stencil
# at: c
@gtscript.stencil(externals={"a": 1})
def f(b: Field[float64]):
    from __externals__ import c
    with computation(PARALLEL), interval(...):
        b = c
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: unknown name `a`
# at: a
@gtscript.stencil(externals={"a": 1})
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = a
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: `a` is an external, which cannot be assigned
@gtscript.stencil(externals={"a": 1})
def f(b: Field[float64]):
    from __externals__ import a
    with computation(PARALLEL), interval(...):
        a = b
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: unknown function `foo`
# at: foo
@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = foo(b)
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: `sqrt` takes 1 argument, found 2
@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = sqrt(b, 2)
---
# call: {"a": [[[1, 2]], [[4, 8]]], "b": [[[0, 0]]]}
# note: a function imports externals itself: constants, offsets, functions, under other names
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[144.0, 576.0]]]}}
@gtscript.function
def square(x):
    return x * x

@gtscript.function
def scaled(x):
    from __externals__ import FACTOR as F, op, right
    return op(x[right, 0, 0] * F)

@gtscript.stencil(externals={"FACTOR": 3, "op": square, "right": 1})
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = scaled(a)
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: unknown name `FACTOR`
# line: 8
@gtscript.function
def g(x):
    from __externals__ import FACTOR
    return x * FACTOR
@gtscript.stencil(externals={"FACTOR": 3})
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = g(b) + FACTOR
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: `nope` is no external of the stencil
# at: nope
@gtscript.function
def g(x):
    from __externals__ import nope
    return x
@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = g(b)
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: unsupported: from math import
# line: 3
@gtscript.function
def g(x):
    from math import pi
    return x
@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = g(b)
---
# call: {"b": [[[0]]]}
# note: through an external
# domain: [1, 1, 1]
# error: type: `g` is recursive; functions cannot call themselves
# at: op(x)
@gtscript.function
def g(x):
    from __externals__ import op
    return op(x) + 1
@gtscript.stencil(externals={"op": g})
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = g(b)
---
# call: {"b": [[[0]]]}
# note: a parameter hides a function
# domain: [1, 1, 1]
# error: type: `g` is no function
# line: 6
@gtscript.function
def g(x):
    return x
@gtscript.function
def h(g):
    return g(g)
@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = h(b)
---
# call: {"b": [[[0]]]}
# note: a parameter hides an external
# domain: [1, 1, 1]
# error: type: an offset must be a constant integer
# line: 3
@gtscript.function
def g(x, n):
    return x[n, 0, 0]
@gtscript.stencil(externals={"n": 0})
def f(b: Field[float64]):
    from __externals__ import n
    with computation(PARALLEL), interval(...):
        b = g(b, 1)
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: the parameter `x` is declared twice
@gtscript.function
def g(x, x):
    return x
@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = g(b, 1)
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: `**rest` is not supported: `g` has a fixed number of parameters
@gtscript.function
def g(x, **rest):
    return x
@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = g(b)
---
# call: {"a": [[[0]]], "b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: the sum of the offsets is too large
@gtscript.function
def g(x):
    return x[1000000000, 0, 0]
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = g(g(a))
