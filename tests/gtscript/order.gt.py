# call: {"tmp": [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]], "a": [[[0, 0]], [[0, 0]]], "b": [[[0, 0]], [[0, 0]]]}
# note: G10: statement by statement
# domain: [2, 1, 2]
# expect: {"a": {"data": [[[7.0, 8.0]], [[11.0, 12.0]]]}, "b": {"data": [[[14.0, 16.0]], [[22.0, 24.0]]]}}
@gtscript.stencil
def f(tmp: Field[float64], a: Field[float64], b: Field[float64]):
    with computation(PARALLEL):
        with interval(0, None):
            a = tmp[1, 1, 0]
            b = 2 * a[0, 0, 0]
---
# call: {"tmp": [[[1], [2], [3]], [[4], [5], [6]], [[7], [8], [9]]], "b": [[[0]]]}
# note: G11: the first statement is done on a larger domain
# domain: [1, 1, 1]
# expect: {"b": {"data": [[[18.0]]]}}
@gtscript.stencil
def f(tmp: Field[float64], b: Field[float64]):
    with computation(FORWARD):
        with interval(...):
            a = tmp[1, 1, 0]
            b = 2 * a[1, 1, 0]
---
# call: {"tmp": [[[1, 2, 3, 4], [5, 6, 7, 8]], [[9, 10, 11, 12], [13, 14, 15, 16]]], "a": [[[0, 0, 0, 0]]], "b": [[[0, 0, 0, 0]]]}
# note: G12: the lower interval is written first and done last
# domain: [1, 1, 4]
# expect: {"a": {"data": [[[13.0, 14.0, 1.1, 1.1]]]}, "b": {"data": [[[26.0, 28.0, 2.2, 2.2]]]}}
@gtscript.stencil
def f(tmp: Field[float64], a: Field[float64], b: Field[float64]):
    with computation(BACKWARD):
        with interval(0, -2):
            a = tmp[1, 1, 0]
            b = 2 * a[0, 0, 0]
        with interval(-2, None):
            a = 1.1
            b = 2.2
---
# call: {"a": [1, 1, 1, 1]}
# note: G4, G5, G6: FORWARD doubles upwards, BACKWARD adds downwards
# domain: [1, 1, 4]
# expect: {"a": {"data": [15.0, 14.0, 12.0, 8.0]}}
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD):
        with interval(1, None):
            a = 2 * a[-1]
    with computation(BACKWARD):
        with interval(0, -1):
            a = a + a[1]
---
# call: {"a": [1, 2, 3, 4], "b": [0, 0, 0, 0]}
# note: rule 2: intervals written in the other order, two levels back
# domain: [1, 1, 4]
# expect: {"b": {"data": [1.0, 2.0, 6.0, 12.0]}}
@gtscript.stencil
def f(a: Field[K, float64], b: Field[K, float64]):
    with computation(FORWARD):
        with interval(2, None):
            b = a + b[-1] + b[-2]
        with interval(0, 2):
            b = a
---
# call: {"a": [1, 2, 3, 4]}
# note: in PARALLEL each statement is done on all levels before the next
# domain: [1, 1, 4]
# expect: {"a": {"data": [2.0, 3.0, 4.0, 4.0]}}
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(PARALLEL):
        with interval(...):
            t = a
    with computation(PARALLEL):
        with interval(0, -1):
            a = t[0, 0, 1]
---
# call: {"a": [1, 2, 3, 4]}
# note: in FORWARD a level runs all its statements before the next level
# domain: [1, 1, 4]
# expect: {"a": {"data": [1.0, 3.0, 6.0, 10.0]}}
@gtscript.stencil
def f(a: Field[K, float64]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a
        with interval(1, None):
            t = a + t[0, 0, -1]
            a = t
---
# call: {"b": [[[0, 0, 0, 0]]]}
# note: G16: what is not written holds 0
# domain: [1, 1, 4]
# expect: {"b": {"data": [[[0.0, 3.0, 3.0, 0.0]]]}}
@gtscript.stencil
def f(b: Field[float64]):
    with computation(FORWARD):
        with interval(1, 3):
            tmp = 3
    with computation(PARALLEL), interval(...):
        b = tmp
---
# call: {"b": [[[0]]]}
# note: G17
# domain: [1, 1, 1]
# expect: {"b": {"data": [[[4.0]]]}}
@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        u = 1
        b = u[-2, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, -2, 0]
---
# call: {"a": {"data": [[[0], [1], [2], [3]], [[4], [5], [6], [7]], [[8], [9], [10], [11]], [[12], [13], [14], [15]]], "origin": [2, 1, 0]}, "b": [[[0]]]}
# note: G17: extents add up through two temporaries
# domain: [1, 1, 1]
# expect: {"b": {"data": [[[44.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a[-1, 0, 0] + a[1, 0, 0]
        u = t[0, -1, 0] + t[0, 1, 0]
        b = u[-1, 0, 0] + u - 16 + 4 * (u / u) + 0 * u[-1, 0, 0]
---
# call: {"a": [[[1, 2], [3, 4]]], "s": [[0, 0]]}
# note: a field without levels accumulates
# domain: [1, 2, 2]
# expect: {"s": {"data": [[3.0, 7.0]]}}
@gtscript.stencil
def f(a: Field[float64], s: Field[IJ, float64]):
    with computation(FORWARD), interval(...):
        s = s + a
---
# call: {"a": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "b": [[[0, 0]], [[0, 0]]]}
# note: reads at horizontal and vertical offsets of what the block writes: level by level
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[1.0, 5.0]], [[0.0, 0.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a
            b = t
        with interval(1, None):
            t = a
            b = t[1, 0, -1]
---
# call: {"a": [1, 2, 3], "b": [10, 20, 30], "c": [0, 0, 0]}
# note: computations over one interval share a loop; a read at another level of what an earlier one wrote ends it
# domain: [1, 1, 3]
# expect: {"b": {"data": [2.0, 4.0, 6.0]}, "c": {"data": [104.0, 206.0, 6.0]}}
@gtscript.stencil
def f(a: Field[K, float64], b: Field[K, float64], c: Field[K, float64]):
    with computation(PARALLEL), interval(...):
        t = 2 * a
    with computation(PARALLEL), interval(...):
        b = t
    with computation(PARALLEL), interval(0, -1):
        c = b[1] + 100 * a
    with computation(PARALLEL), interval(-1, None):
        c = b
---
# call: {"a": [1, 2, 3], "b": [10, 20, 30], "c": [0, 0, 0]}
# note: what a computation reads at another level is what was there before a later one writes it
# domain: [1, 1, 3]
# expect: {"b": {"data": [7.0, 7.0, 30.0]}, "c": {"data": [20.0, 30.0, 0.0]}}
@gtscript.stencil
def f(a: Field[K, float64], b: Field[K, float64], c: Field[K, float64]):
    with computation(PARALLEL), interval(0, -1):
        c = b[1]
    with computation(PARALLEL), interval(0, -1):
        b = 7.0
---
# call: {"a": [-1, 1, 5, 9], "b": [0, 0, 0, 0]}
# note: a mask holds those around it, in every branch
# domain: [1, 1, 4]
# expect: {"b": {"data": [1.0, 2.0, 3.0, 4.0]}}
@gtscript.stencil
def f(a: Field[K, float64], b: Field[K, float64]):
    with computation(PARALLEL), interval(...):
        if a > 0:
            if a > 4:
                if a > 8:
                    b = 4
                else:
                    b = 3
            else:
                b = 2
        else:
            b = 1
---
# call: {"a": [[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]]], "b": [[[0, 0, 0]]]}
# note: at a horizontal offset of levels that come later, or of other levels where there is one only: nothing grows with the levels
# domain: [1, 1, 3]
# expect: {"b": {"data": [[[15, 6, 3]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a
    with computation(FORWARD), interval(0, -1):
        t = t[1, 0, 1]
    with computation(BACKWARD), interval(0, 1):
        t = t[0, 0, 1] + t[1, 0, 1]
    with computation(PARALLEL), interval(...):
        b = t
---
# call: {"a": {"data": [[[1]], [[2]], [[4]]], "origin": [1, 0, 0]}, "b": [[[0]]], "c": [[[0]]]}
# note: G17: what is assigned before is not needed where a temporary is assigned anew
# domain: [1, 1, 1]
# expect: {"b": {"data": [[[5.0]]]}, "c": {"data": [[[3.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a[-1, 0, 0] + a[1, 0, 0]
        b = t
        t = a
        c = t[1, 0, 0] - t[-1, 0, 0]
---
# call: {"a": {"data": [[[1, 8]], [[2, 16]], [[4, 32]]], "origin": [1, 0, 0]}, "b": [[[0, 0]]], "c": [[[0, 0]]]}
# note: G17: so it is across computations, and level by level
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[4.0, 36.0]]]}, "c": {"data": [[[3.0, 24.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a[1, 0, 0]
            b = t
        with interval(1, None):
            t = a[1, 0, 0]
            b = b[0, 0, -1] + t
    with computation(FORWARD), interval(...):
        t = a
        c = t[1, 0, 0] - t[-1, 0, 0]
---
# call: {"a": [[[1, 8]], [[2, 16]]], "b": [[[0, 0]]]}
# note: G17: levels that are not assigned anew, a mask and a loop leave what was there
# domain: [1, 1, 2]
# error: runtime: `a[1, 0, 0]` is read over the domain extended by 1 out of bounds: at index 2 of `a` along I, whose size is 2
# at: a[1, 0, 0]
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a[1, 0, 0]
    with computation(PARALLEL), interval(1, None):
        t = 0
    with computation(PARALLEL), interval(...):
        b = t[1, 0, 0]
---
# call: {"a": [[[1]], [[2]]], "b": [[[0]]]}
# domain: [1, 1, 1]
# error: runtime: `a[1, 0, 0]` is read over the domain extended by 1 out of bounds: at index 2 of `a` along I, whose size is 2
# at: a[1, 0, 0]
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a[1, 0, 0]
        if a > 0:
            t = a
        b = t[1, 0, 0]
---
# call: {"a": [[[1]], [[2]]], "b": [[[0]]]}
# domain: [1, 1, 1]
# error: runtime: `a[1, 0, 0]` is read over the domain extended by 1 out of bounds: at index 2 of `a` along I, whose size is 2
# at: a[1, 0, 0]
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a[1, 0, 0]
        n = 1
        while n > 0:
            n = 0
            t = n
        b = t[1, 0, 0]
