# call: {"a": [[[1]]]}
# note: G1: the text is Python's
# domain: [1, 1, 1]
# error: parse: expected `:`
# line: 3
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...)
        a = 1
---
# call: {"a": [[[1]]]}
# note: G2: one order
# domain: [1, 1, 1]
# error: type: expected computation(FORWARD), computation(BACKWARD) or computation(PARALLEL), found 2 arguments
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD, BACKWARD), interval(...):
        a = 1
---
# call: {"a": [[[1]]]}
# note: G3: a computation has intervals
# domain: [1, 1, 1]
# error: type: expected `with interval(..):`, found an assignment
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL):
        a = 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: expected `computation(..)`, found `interval`
@gtscript.stencil
def f(a: Field[float64]):
    with interval(...):
        a = 1
---
# call: {"a": [1, 2, 3], "b": [0, 0, 0]}
# note: G11: there is no level before the first
# domain: [1, 1, 3]
# error: runtime: `b[-1]` is read out of bounds: at index -1 of `b` along K, whose size is 3
# at: b[-1]
@gtscript.stencil
def f(a: Field[K, float64], b: Field[K, float64]):
    with computation(FORWARD), interval(...):
        b = a + b[-1]
---
# call: {"a": [1, 2, 3], "b": [0, 0, 0]}
# note: G12: nor one behind the last
# domain: [1, 1, 3]
# error: runtime: `b[1]` is read out of bounds: at index 3 of `b` along K, whose size is 3
# at: b[1]
@gtscript.stencil
def f(a: Field[K, float64], b: Field[K, float64]):
    with computation(BACKWARD), interval(...):
        b = a + b[1]
---
# call: {"a": [1, 2, 3], "b": [0, 0, 0]}
# domain: [1, 1, 3]
# expect: {"b": {"data": [6, 5, 3]}}
@gtscript.stencil
def f(a: Field[K, float64], b: Field[K, float64]):
    with computation(BACKWARD):
        with interval(-1, None):
            b = a
        with interval(0, -1):
            b = a + b[1]
---
# call: one {"a": [0, 0, 0, 0, 0]}
# note: G14: the other intervals of the document
# domain: [1, 1, 5]
# expect: {"a": {"data": [0, 1, 1, 0, 0]}}
# call: two {"a": [0, 0, 0, 0, 0]}
# domain: [1, 1, 5]
# expect: {"a": {"data": [0, 1, 1, 0, 0]}}
# call: three {"a": [0, 0, 0, 0, 0]}
# domain: [1, 1, 5]
# expect: {"a": {"data": [0, 0, 0, 1, 1]}}
# call: four {"a": [0, 0, 0, 0, 0]}
# domain: [1, 1, 5]
# expect: {"a": {"data": [0, 0, 0, 1, 1]}}
# call: four {"a": [0, 0, 0, 0, 0]}
# domain: [1, 1, 4]
# error: runtime: interval(-2, 5) goes beyond a domain of 4 levels
@gtscript.stencil
def one(a: Field[K, float64]):
    with computation(PARALLEL), interval(1, 3):
        a = 1

@gtscript.stencil
def two(a: Field[K, float64]):
    with computation(PARALLEL), interval(1, -2):
        a = 1

@gtscript.stencil
def three(a: Field[K, float64]):
    with computation(PARALLEL), interval(-2, None):
        a = 1

@gtscript.stencil
def four(a: Field[K, float64]):
    with computation(PARALLEL), interval(-2, 5):
        a = 1
---
# call: {"a": [[[1]]]}
# note: G16: the type of a temporary
# domain: [1, 1, 1]
# error: type: expected a dtype (float64, float32, int64, int32, bool), found `int8`
# at: int8
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        t: int8 = 3
        a = t
---
# call: {"a": [[[1]]], "n": 0.5}
# note: G18: any scalar that is not zero
# domain: [1, 1, 1]
# expect: {"a": {"data": [[[2]]]}}
# call: {"a": [[[1]]], "n": 0}
# domain: [1, 1, 1]
# expect: {"a": {"data": [[[1]]]}}
@gtscript.stencil
def f(a: Field[float64], n: float64):
    with computation(PARALLEL), interval(...):
        if n:
            a = a + 1
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: a string is not supported in an expression of a stencil
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        if "x":
            a = 1
---
# call: {"a": [[[1, 2]]]}
# note: G19: what a branch does not write is 0 in a temporary
# domain: [1, 1, 2]
# expect: {"a": {"data": [[[0, 2]]]}}
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        if a > 1:
            t = a
        a = t
---
# call: {"a": [[[1]]]}
# note: G23: a loop ends by its condition alone, which may be a constant
# domain: [1, 1, 1]
# error: type: break is not supported in a stencil
# line: 6
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        while a < 3:
            a += 1
            break
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# expect: {"a": {"data": [[[1]]]}}
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        while False:
            a = 2
---
# call: {"a": [[[1]]]}
# note: G25: every operator
# domain: [1, 1, 1]
# expect: {"a": {"data": [[[1]]]}}
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        a += 1
        a *= 3
        a -= 2
        a /= 2
        a **= 2
        a //= 3
        a %= 3
---
# call: {"a": [[[1]]]}
# note: of a name that has a value
# domain: [1, 1, 1]
# error: type: `c` is read before it is assigned
# at: c
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        c += 1
        a = c
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: the operator `@=` is not supported
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        a @= 1
---
# call: {"a": [[[1]]]}
# note: G26: an integer of 64 bits at most
# domain: [1, 1, 1]
# error: type: the integer 1180591620717411303424 is too large
# at: 1180591620717411303424
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        a = 1180591620717411303424
