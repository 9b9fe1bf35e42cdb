# call: {"a": [0, 0, 0, 0, 0]}
# note: G14
# domain: [1, 1, 5]
# expect: {"a": {"data": [1.0, 2.0, 0.0, 3.0, 4.0]}}
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(PARALLEL):
        with interval(0, 1):
            a = 1
        with interval(1, 2):
            a = 2
        with interval(-2, -1):
            a = 3
        with interval(-1, None):
            a = 4
---
# call: {"a": [0, 0]}
# domain: [1, 1, 2]
# error: type: interval(1, None) overlaps interval(0, 2) of the same computation
# at: interval(1, None)
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD):
        with interval(0, 2):
            a = 1
        with interval(1, None):
            a = 2
---
# call: {"a": [0, 0, 0]}
# domain: [1, 1, 3]
# error: runtime: interval(-2, None) overlaps interval(0, 2) over a domain of 3 levels
# at: interval(-2, None)
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD):
        with interval(0, 2):
            a = 1
        with interval(-2, None):
            a = 2
---
# call: {"a": [0]}
# domain: [1, 1, 1]
# error: type: interval(2, 1) is reversed
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD), interval(2, 1):
        a = 1
---
# call: {"a": [0]}
# domain: [1, 1, 1]
# error: type: interval(1, 1) is empty
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD), interval(1, 1):
        a = 1
---
# call: {"a": [0, 0]}
# domain: [1, 1, 2]
# error: runtime: interval(1, -1) is empty or reversed over a domain of 2 levels
# at: interval(1, -1)
# line: 3
# call: {"a": [0, 0, 0]}
# domain: [1, 1, 3]
# expect: {"a": {"data": [0.0, 1.0, 0.0]}}
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD), interval(1, -1):
        a = 1
---
# call: {"a": [0, 0]}
# domain: [1, 1, 2]
# error: runtime: interval(0, 3) goes beyond a domain of 2 levels
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD), interval(0, 3):
        a = 1
---
# call: {"a": [0, 0]}
# domain: [1, 1, 2]
# error: type: an interval cannot start at None
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD), interval(None, 2):
        a = 1
---
# call: {"a": [0, 0]}
# domain: [1, 1, 2]
# error: type: the bound of an interval must be an integer or None, found 0.5
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD), interval(0.5, 2):
        a = 1
---
# call: {"a": [0, 0]}
# domain: [1, 1, 2]
# error: type: expected interval(...) or interval(start, end), found an integer
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD), interval(1):
        a = 1
---
# call: {"a": [0, 0]}
# domain: [1, 1, 2]
# error: type: expected computation(FORWARD), computation(BACKWARD) or computation(PARALLEL), found `SIDEWAYS`
# at: SIDEWAYS
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(SIDEWAYS), interval(...):
        a = 1
---
# call: {"a": [0, 0]}
# domain: [1, 1, 2]
# error: type: found 0 arguments
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(), interval(...):
        a = 1
---
# call: {"a": [5, 6]}
# note: nothing to do
# domain: [1, 1, 0]
# expect: {"a": {"data": [5.0, 6.0]}}
# call: {"a": [5, 6]}
# domain: [0, 1, 2]
# expect: {"a": {"data": [5.0, 6.0]}}
# call: {"a": []}
# domain: [1, 0, 1]
# expect: {"a": {"data": []}}
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD):
        with interval(0, 1):
            a = 1
        with interval(1, None):
            a = 2 * a[-1]
---
# Without a domain, levels that no interval reaches are levels of the fields, too.
# call: {"a": [1, 2, 3], "b": [9, 9, 9]}
# expect: {"b": {"data": [1, 2, 9]}}
# call: {"a": [1, 2], "b": [9, 9, 9]}
# expect: {"b": {"data": [1, 2, 9]}}
# call: {"a": {"data": [0, 1, 2, 3], "origin": [1]}, "b": [9, 9, 9]}
# expect: {"b": {"data": [1, 2, 9]}}
@gtscript.stencil
def f(a: Field[K, float64], b: Field[K, float64]):
    with computation(PARALLEL), interval(0, -1):
        b = a
---
# call: {"b": [[[9, 9, 9, 9]]]}
# expect: {"b": {"data": [[[9, 7, 7, 9]]]}}
@gtscript.stencil
def f(b: Field[float64]):
    with computation(FORWARD), interval(1, -1):
        b = 7
---
# call: {"a": [1, 2], "n": 1}
# domain: [1, 1, 2]
# error: type: `n` is no constant; expected numbers and externals
# line: 3
@gtscript.stencil
def f(a: Field[K, float64], n: int64):
    with computation(FORWARD), interval(0, n):
        a = 1
---
# call: {"a": [[[0, 0, 0, 0]]]}
# note: an external may be None, the end
# domain: [1, 1, 4]
# expect: {"a": {"data": [[[0.0, 1.0, 1.0, 1.0]]]}}
@gtscript.stencil(externals={"first": 1, "last": None})
def f(a: Field[float64]):
    from __externals__ import first, last as end
    with computation(PARALLEL), interval(first, end):
        a = 1
---
# error: type: an interval cannot start at None, which is the end; expected an integer
# at: last
@gtscript.stencil(externals={"last": None})
def f(a: Field[float64]):
    from __externals__ import last
    with computation(PARALLEL), interval(last, None):
        a = 1
---
# error: type: `last` is None, which only the bound of an interval can be
@gtscript.stencil(externals={"last": None})
def f(a: Field[float64]):
    from __externals__ import last
    with computation(PARALLEL), interval(0, last):
        a = last
---
# error: type: `last` is None, which only the bound of an interval can be
@gtscript.function
def g(x):
    from __externals__ import last
    return x + last

@gtscript.stencil(externals={"last": None})
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        a = g(a)
