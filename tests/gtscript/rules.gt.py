# call: {"a": {"data": [[[1, 2]], [[3, 4]]]}, "b": [[[0, 0]]]}
# note: G7 a: write after a read with offset
# domain: [1, 1, 2]
# error: type: rule 4: `a` is written, so it cannot be read with a horizontal offset, found `a[1, 1, 0]`
# at: a[1,1,0]
# line: 4
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(FORWARD), interval(...):
        b = a[1,1,0]
        a = 0.
---
# call: {"a": [[[1, 2]]]}
# note: G7 b: shifted self-assignment
# domain: [1, 1, 2]
# error: type: rule 4: `a` is written
# at: a[1,1,0]
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD):
        with interval(...):
            a = a[1,1,0]
---
# call: {"a": [[[1, 2]]]}
# note: G7 c: through a temporary
# domain: [1, 1, 2]
# error: type: rule 4: `a` is written from values of `a` that `tmp` is read with a horizontal offset for, found `tmp[1, 1, 0]`
# at: tmp[1,1,0]
# line: 8
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL):
        with interval(...):
            tmp = a
    with computation(PARALLEL):
        with interval(...):
            a = tmp[1,1,0]
---
# call: {"a": [[[1, 2]]]}
# note: through two temporaries, a condition and a loop
# domain: [1, 1, 2]
# error: type: rule 4: `a` is written from values of `a` that `t` is read
# at: t[0, 1, 0]
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a + 1
        u = t[0, 1, 0]
        n = 0.0
        if u > 0:
            while n < 2:
                n += 1
        a = n
---
# call: {"a": [[[1, 2]], [[3, 4]]], "b": [[[0, 0]]]}
# note: what flows elsewhere is no write of `a`
# domain: [1, 1, 2]
# expect: {"a": {"data": [[[0.0, 0.0]], [[3.0, 4.0]]]}, "b": {"data": [[[3.0, 4.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a
        b = t[1, 0, 0]
        a = 0
---
# call: {"a": [[[1, 2]], [[3, 4]]], "b": [[[0, 0]]]}
# note: values of `a` after its write, beyond the domain
# domain: [1, 1, 2]
# error: type: rule 4: `a` is written
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        a = 0
        t = a
        b = t[1, 0, 0]
---
# call: {"a": [[[1]]], "b": [[[1]]], "c": [[[1]]], "field": [[[1]]]}
# note: G20
# domain: [1, 1, 1]
# error: type: `a` is written
# at: a[1, 0, 0]
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64], field: Field[float64]):
    with computation(PARALLEL):
        with interval(...):
            if field:
                b = a[1, 0, 0]
                a = 1
                c = a[0, 1, 0]
---
# call: {"a": [[[1]]], "b": [[[1]]], "field": [[[1]]]}
# note: G21
# domain: [1, 1, 1]
# error: type: `a` is written
# at: a[1, 0, 0]
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], field: Field[float64]):
    with computation(FORWARD):
        with interval(...):
            if field:
                a = 1
            else:
                b = a[1, 0, 0]
---
# call: {"a": [[[1]]], "field": [[[1]]]}
# note: G22
# domain: [1, 1, 1]
# error: type: `a` is written
# at: a[0, 1, 0]
@gtscript.stencil
def f(a: Field[float64], field: Field[float64]):
    with computation(PARALLEL):
        with interval(...):
            if field:
                a = a[0, 1, 0]
---
# call: {"a": [[[1]]]}
# note: G24: in the condition
# domain: [1, 1, 1]
# error: type: `t` is written in the body of this `while`, so it cannot be read there with a horizontal offset, found `t[1, 0, 0]`
# at: t[1, 0, 0]
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        t = 0.0
        while t[1, 0, 0] < 2:
            t += 1
        a = t
---
# call: {"a": [[[1]]]}
# note: G24: in the body
# domain: [1, 1, 1]
# error: type: `u` is written in the body of this `while`
# at: u[0, -1, 0]
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        t = 0.0
        u = 1.0
        while t < 2:
            u = u + 1
            t += u[0, -1, 0]
        a = t
---
# call: {"a": [[[1, 2]]]}
# domain: [1, 1, 2]
# error: type: `a` is assigned from itself at a vertical offset in PARALLEL, found `a[0, 0, 1]`
# at: a[0, 0, 1]
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(0, -1):
        a = a[0, 0, 1]
---
# call: {"a": [[[1, 2, 3]]]}
# note: in FORWARD it shifts
# domain: [1, 1, 3]
# expect: {"a": {"data": [[[2.0, 3.0, 3.0]]]}}
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(0, -1):
        a = a[0, 0, 1]
---
# call: {"a": [[1, 2]]}
# domain: [1, 2, 1]
# error: type: `a` has no K axis (IJ): it can be written in FORWARD and BACKWARD only, found PARALLEL
# at: a
@gtscript.stencil
def f(a: Field[IJ, float64]):
    with computation(PARALLEL), interval(...):
        a = 1
---
# call: {"a": [1, 2], "b": [[[1, 2]]]}
# domain: [1, 1, 2]
# error: type: `a` has no I axis (K), but what is assigned to it varies along I
@gtscript.stencil
def f(a: Field[K, float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        a = b
---
# call: {"a": [[[1, 2, 3]]]}
# note: a temporary may be shifted
# domain: [1, 1, 3]
# error: runtime: `a` is read over the domain extended by 1 out of bounds: at index 1 of `a` along I, whose size is 1
@gtscript.stencil
def f(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a
        t = t[1, 0, 0]
---
# call: {"a": [[[1, 2, 3]]], "b": [[[0, 0, 0]]]}
# note: each level would need a larger domain of the one before
# domain: [1, 1, 3]
# error: type: each level needs `t` of the level before on a larger domain
# at: t[1, 0, -1]
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a
        with interval(1, None):
            t = t[1, 0, -1]
            b = t
