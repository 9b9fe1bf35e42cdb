# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: for is not supported in a stencil
# line: 4
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        for i in range(3):
            a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: return is not supported in a stencil
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        a = 1
    return a
---
# call: {"a": [[[1]]], "b": [[[1]]]}
# domain: [1, 1, 1]
# error: type: assigning to a tuple is not supported
# at: a, b
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        a, b = 1, 2
---
# call: {"a": [[[1]]], "b": [[[1]]]}
# domain: [1, 1, 1]
# error: type: chained assignment is not supported
# at: b
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        a = b = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: computations and intervals cannot be nested
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        with computation(FORWARD), interval(...):
            a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: expected `interval(..)`, found `computation`; computations cannot be nested
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL):
        with computation(FORWARD), interval(...):
            a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: `*rest` is not supported: a stencil has a fixed number of parameters
# at: rest
@gtscript.stencil
def f(a: Field[float64], *rest):
    with computation(PARALLEL), interval(...):
        a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: the parameter `a` has no annotation; expected `Field[dtype]` or a dtype
# at: a
@gtscript.stencil
def f(a):
    with computation(PARALLEL), interval(...):
        a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: `a` is assigned at an offset; expected the name alone
# at: a[0, 0, 1]
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        a[0, 0, 1] = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: `t` is read before it is assigned
# at: t
# line: 4
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        a = t
        t = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: unknown name `x`
# at: x
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        a = x
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: `a` has the axes IJK: expected 3, found 2 offsets
# at: a[1, 0]
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a[1, 0]
---
# call: {"a": [[[1]]], "k": [1]}
# domain: [1, 1, 1]
# error: type: `k` has the axes K: expected 1, found 3 offsets
@gtscript.stencil
def f(a: Field[float64], k: Field[K, float64]):
    with computation(PARALLEL), interval(...):
        a = k[0, 0, 1]
---
# call: {"a": [[[1]]], "n": 1}
# domain: [1, 1, 1]
# error: type: an offset must be a constant integer
# at: n
@gtscript.stencil
def f(a: Field[float64], n: int64):
    with computation(FORWARD), interval(...):
        a = a[0, 0, n]
---
# call: {"a": [[[1]]], "n": 1}
# domain: [1, 1, 1]
# error: type: an offset must be a constant integer, found 0.5
@gtscript.stencil
def f(a: Field[float64], n: int64):
    with computation(FORWARD), interval(...):
        a = a[0, 0, 0.5]
---
# call: {"a": [[[1]]], "n": 1}
# domain: [1, 1, 1]
# error: type: `n` is a scalar, which has no offsets
@gtscript.stencil
def f(a: Field[float64], n: int64):
    with computation(FORWARD), interval(...):
        a = n[0, 0, 0]
---
# call: {"a": [[[1]]], "n": 1}
# domain: [1, 1, 1]
# error: type: `n` is a scalar parameter, which cannot be assigned
@gtscript.stencil
def f(a: Field[float64], n: int64):
    with computation(FORWARD), interval(...):
        n = a
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: the operator `&` is not supported; use `and`
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        a = (a > 1) & (a < 2)
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: the operator `in` is not supported
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        a = 1 in a
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: a string is not supported in an expression of a stencil
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        a = "x"
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: unsupported: import os; a module holds definitions of stencils and functions
# line: 1
import os
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: unknown decorator `@jit` of `f`
@jit
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: `f` has no decorator
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: `f` is defined twice
# line: 6
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        a = 1
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        a = 1
---
# call: g {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: no stencil is called `g`
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        a = 1
---
# call: g {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: `g` is a function; only a stencil can be called
# line: 2
@gtscript.function
def g(a):
    return a
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: the stencil `f` has no computation
@gtscript.stencil
def f(a: Field[float64]):
    """nothing"""
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: expected `with computation(..), interval(..):`, found an assignment
# line: 3
@gtscript.stencil
def f(a: Field[float64]):
    x = 1
    with computation(FORWARD), interval(...):
        a = 1
---
# call: {"a": [[[1]]]}
# note: Python's own errors
# domain: [1, 1, 1]
# error: parse: expected
# line: 3
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD) interval(...):
        a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: parse: indent
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
    a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: unsupported: import math
# line: 3
@gtscript.stencil
def f(a: Field[float64]):
    import math
    with computation(FORWARD), interval(...):
        a = 1
