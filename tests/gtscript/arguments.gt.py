# call: f [[[[1, 2]]], 2.5]
# note: by position; the entry is named
# domain: [1, 1, 2]
# expect: {"a": {"data": [[[2.5, 5.0]]]}}
# call: f {"a": [[[1, 2]]]}
# domain: [1, 1, 2]
# expect: {"a": {"data": [[[10.0, 20.0]]]}}
# call: f {"a": [[[1, 2]]], "b": 1}
# domain: [1, 1, 2]
# error: type: no parameter is called `b`
# call: f {"w": 1}
# domain: [1, 1, 2]
# error: type: `a` is missing: expected 2 arguments, found 1
# at: f
# line: 2
# call: f {"a": [[1, 2]]}
# domain: [1, 1, 2]
# error: type: `a` is Field[IJK, float64] with 3 axes, found data with 2 axes
# call: f {"a": 5}
# domain: [1, 1, 2]
# error: type: `a` is Field[IJK, float64] with 3 axes, found data with 0 axes
# call: f {"a": [[[1, 2]]], "w": [1]}
# domain: [1, 1, 2]
# error: type: `w` is the scalar float64, found data with 1 axes
# call: f {"a": {"data": [[[1, 2]]], "origin": [0, 0]}}
# domain: [1, 1, 2]
# error: type: the origin of `a` must have 3 numbers, found 2
# call: f {"a": {"data": [[[1, 2]]], "origin": [0, 0, -1]}}
# domain: [1, 1, 2]
# error: type: argument `a`: expected Field[IJK, float64]: `origin` must be a list of whole numbers
# call: f {"a": {"data": [[[1, 2]]], "offset": [0, 0, 0]}}
# domain: [1, 1, 2]
# error: type: argument `a`: expected Field[IJK, float64]: `offset` says nothing about a value
# call: f {"a": [[[1, 2]], [[3]]]}
# domain: [1, 1, 2]
# error: type: argument `a`: expected Field[IJK, float64]: the list is ragged
# call: f {"a": {"data": [[[1, 2]]], "origin": [0, 0, 1]}}
# domain: [1, 1, 2]
# error: runtime: `a` is read out of bounds: at index 2 of `a` along K, whose size is 2
# call: f {"a": [[[1, 2]]]}
# note: without a domain it is the largest that fits
# expect: {"a": {"data": [[[10.0, 20.0]]]}}
# call: f {"a": {"data": [[[1, 2, 3]]], "origin": [0, 0, 1]}}
# expect: {"a": {"data": [[[1.0, 20.0, 30.0]]]}}
# call: f {"a": [[[1, 2]]]}
# domain: [9000000000000000000, 9000000000000000000, 9000000000000000000]
# error: runtime: out of bounds
@gtscript.stencil
def f(a: Field[float64], w: float64 = 10.0):
    with computation(PARALLEL), interval(...):
        a = w * a

@gtscript.stencil
def g(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        a = 0
---
# call: {"a": [[[1], [2], [4]], [[8], [16], [32]], [[64], [128], [256]]], "b": [[[0], [0], [0]], [[0], [0], [0]], [[0], [0], [0]]]}
# note: the largest domain leaves a margin for the offsets
# expect: {"b": {"data": [[[0.0], [0.0], [0.0]], [[0.0], [170.0], [0.0]], [[0.0], [0.0], [0.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = a[1, 0, 0] + a[-1, 0, 0] + a[0, 1, 0] + a[0, -1, 0]
---
# call: {"a": [1, 2], "b": [10, 20], "c": [100, 200, 300], "ij": [[1, 2], [3, 4]], "ik": [[1, 2, 3], [4, 5, 6]], "jk": [[1, 2, 3], [4, 5, 6]], "o": [[[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]]}
# note: all axes
# domain: [2, 2, 3]
# expect: {"o": {"data": [[[114.0, 216.0, 318.0], [128.0, 230.0, 332.0]], [[120.0, 222.0, 324.0], [134.0, 236.0, 338.0]]]}}
@gtscript.stencil
def f(a: Field[I, float64], b: Field[J, float64], c: Field[K, float64], ij: Field[IJ, float64], ik: Field[IK, float64], jk: Field[JK, float64], o: Field[IJK, float64]):
    with computation(PARALLEL), interval(...):
        o = a + b + c + ij + ik + jk
---
# call: {"a": [[1, 2, 3], [4, 5, 6]], "b": [[7, 7, 7], [7, 7, 7]], "c": [[0, 0], [0, 0]]}
# note: fields without I or J are written, too
# domain: [2, 2, 3]
# expect: {"b": {"data": [[7.0, 1.0, 3.0], [7.0, 4.0, 9.0]]}, "c": {"data": [[0.0, 0.0], [0.0, 0.0]]}}
@gtscript.stencil
def f(a: Field[IK, float64], b: Field[IK, float64], c: Field[IJ, float64]):
    with computation(FORWARD):
        with interval(1, 2):
            b = a[0, -1]
        with interval(2, None):
            b = a[0, -1] + b[0, -1]
            c = 0 * a
---
# call: {"a": [1, 2], "b": [0, 0]}
# note: gradients are OCANNL's
# wrt: ["a"]
# error: type: `wrt` is given, but gtscript has no gradients
@gtscript.stencil
def f(a: Field[K, float64], b: Field[K, float64]):
    with computation(PARALLEL), interval(...):
        b = 2 * a
---
# call: {"a": [[[1]], [[2]], [[4]], [[8]]], "b": [[[5]], [[5]], [[5]], [[5]]]}
# note: a field that is too small for what temporaries read of it leaves a domain without points
# expect: {"b": {"data": [[[8.0]], [[5.0]], [[5.0]], [[5.0]]]}}
# call: {"a": [[[1]], [[2]], [[4]]], "b": [[[5]], [[5]], [[5]]]}
# expect: {"b": {"data": [[[5.0]], [[5.0]], [[5.0]]]}}
# call: {"a": [[[1]]], "b": [[[5]]]}
# expect: {"b": {"data": [[[5.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a[1, 0, 0]
        u = t[1, 0, 0]
        b = u[1, 0, 0]
---
# call: {"a": null, "b": [[[0]]]}
# note: NULL in, NULL out
# expect: null
# call: {"a": "x", "b": [[[0]]]}
# error: type: argument `a`: expected Field[IJK, float64]
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = a
---
# call: {"a": [[[0]]]}
# note: defaults are values of their types
# domain: [1, 1, 1]
# expect: {"a": {"data": [[[-2147483643.75]]]}}
@gtscript.stencil
def f(a: Field[float64], n: int32 = -2147483648, m: int64 = 2 * 2.0, w: float64 = 1 / 4, b: bool = True):
    with computation(PARALLEL), interval(...):
        a = w if not b else w + n + m
---
# call: {"a": [[[0]]]}
# domain: [1, 1, 1]
# error: type: the default value of `n` is int64, found 2.5
# at: 2.5
@gtscript.stencil
def f(a: Field[float64], n: int64 = 2.5):
    with computation(PARALLEL), interval(...):
        a = n
---
# call: {"a": [[[0]]]}
# domain: [1, 1, 1]
# error: type: the default value of `n` is int32, found 3000000000
@gtscript.stencil
def f(a: Field[float64], n: int32 = 3000000000):
    with computation(PARALLEL), interval(...):
        a = n
---
# call: {}
# domain: [1, 1, 1]
# error: type: `a`, `w` are missing: expected 2 arguments, found 0
@gtscript.stencil
def f(a: Field[float64], w: float64):
    with computation(PARALLEL), interval(...):
        a = w
