# call: [{"data": [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]], "origin": [1, 0, 0]}, [[[0, 0], [0, 0]]]]
# note: G1, G2, G3, G13, G15
# domain: [1, 2, 2]
# expect: {"b": {"data": [[[10.0, 12.0], [14.0, 16.0]]]}}
# type: {b: Field[IJK, float64]}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = a[1, 0, 0] + a[-1, 0, 0]
---
# call: [[4, 8, 0], [0, 0, 0]]
# note: the example of the design
# domain: [1, 1, 3]
# expect: {"s": {"data": [4.0, 6.0, 3.0]}}
@stencil
def smooth(t: Field[K, float64], s: Field[K, float64]):
    with computation(FORWARD):
        with interval(0, 1):
            s = t
        with interval(1, None):
            s = 0.5 * t + 0.5 * s[-1]
---
# call: {"a": [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]], "b": {"data": [[[-1, -1, -1, -1], [-1, -1, -1, -1], [-1, -1, -1, -1]], [[-1, -1, -1, -1], [-1, -1, -1, -1], [-1, -1, -1, -1]], [[-1, -1, -1, -1], [-1, -1, -1, -1], [-1, -1, -1, -1]]], "origin": [1, 1, 1]}}
# note: a part of the field is written, the rest stays as it was
# domain: [1, 2, 3]
# expect: {"b": {"data": [[[-1.0,-1.0,-1.0,-1.0],[-1.0,-1.0,-1.0,-1.0],[-1.0,-1.0,-1.0,-1.0]],[[-1.0,-1.0,-1.0,-1.0],[-1.0,-1.0,4.0,6.0],[-1.0,-1.0,10.0,12.0]],[[-1.0,-1.0,-1.0,-1.0],[-1.0,-1.0,-1.0,-1.0],[-1.0,-1.0,-1.0,-1.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(1, None):
        b = 2 * a
---
# call: [[1, 1, 1, 1], [4, 4, 4, 4], [1, 1, 1, 1], [5, 6, 6, 5], [0, 0, 0, 0]]
# note: backward, with a temporary of a forward sweep
# domain: [1, 1, 4]
# expect: {"x": {"data": [1.0, 1.0, 1.0, 1.0]}}
@gtscript.stencil
def solve(a: Field[K, float64], b: Field[K, float64], c: Field[K, float64], d: Field[K, float64], x: Field[K, float64]):
    with computation(FORWARD):
        with interval(0, 1):
            cp = c / b
            dp = d / b
        with interval(1, None):
            m = 1.0 / (b - a * cp[0, 0, -1])
            cp = c * m
            dp = (d - a * dp[0, 0, -1]) * m
    with computation(BACKWARD):
        with interval(-1, None):
            x = dp
        with interval(0, -1):
            x = dp - cp * x[1]
---
# call: [[[[1, 2], [3, 4]]], [[[0, 0], [0, 0]]]]
# note: points out of bounds
# domain: [1, 2, 2]
# error: runtime: `a[1, 0, 0]` is read out of bounds: at index 1 of `a` along I, whose size is 1
# at: a[1, 0, 0]
# line: 4
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = a[1, 0, 0]
---
# call: {"a": [[[1]]]}
# note: imports of the language and of NumPy's dtypes
# domain: [1, 1, 1]
# expect: {"a": {"data": [[[2.0]]]}}
from __future__ import annotations

import numpy as np
from gt4py.cartesian.gtscript import PARALLEL, Field, computation, interval

@gtscript.stencil
def f(a: Field[np.float64]):
    from __gtscript__ import PARALLEL
    with computation(PARALLEL), interval(...):
        a += 1
