# call: {"a": [[[1.0, 4.0, 0.0, 3.0, -1.0]]], "b": [[[-1.0, -2.0, -3.0, -4.0, -5.0]]]}
# note: a recurrence and a sweep back: the first level of each does not fill the others
# domain: [1, 1, 5]
# expect: {"b": {"data": [[[0.0, 1.0, 4.0, 1.0, 7.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a
        with interval(1, None):
            t = a + t[0, 0, -1]
    with computation(BACKWARD):
        with interval(-1, None):
            b = t
        with interval(0, -1):
            b = t - b[0, 0, 1]
---
# call: {"a": [[[1.0, 4.0, 0.0, 3.0, -1.0]]], "b": [[[-1.0, -2.0, -3.0, -4.0, -5.0]]]}
# note: levels between two writes, and above both
# domain: [1, 1, 5]
# expect: {"b": {"data": [[[1.0, 0.0, 0.0, 3.0, 0.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a
        with interval(2, 4):
            t = t[0, 0, -1] + a
    with computation(PARALLEL), interval(...):
        b = t
---
# call: {"a": [[[1.0, 4.0, 0.0, 3.0, -1.0]]], "b": [[[-1.0, -2.0, -3.0, -4.0, -5.0]]]}
# note: what a mask leaves
# domain: [1, 1, 5]
# expect: {"b": {"data": [[[1.0, 8.0, 0.0, 6.0, 0.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(FORWARD), interval(0, 2):
        t = a
    with computation(PARALLEL), interval(1, None):
        if a > 2:
            t = 2 * a
    with computation(PARALLEL), interval(...):
        b = t
---
# call: {"a": [[[1.0, 4.0, 0.0, 3.0, -1.0]]], "b": [[[-1.0, -2.0, -3.0, -4.0, -5.0]]], "c": [[[-1.0, -2.0, -3.0, -4.0, -5.0]]]}
# note: reads of what is overwritten: the level ahead, the level itself
# domain: [1, 1, 5]
# expect: {"b": {"data": [[[5.0, 1.0, 1.0, 1.0, 0.0]]]}, "c": {"data": [[[1.0, 5.0, 1.0, 1.0, 1.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(FORWARD), interval(1, 3):
        t = a
        u = a
    with computation(FORWARD), interval(0, -1):
        t = t[0, 0, 1] + 1
    with computation(FORWARD), interval(...):
        u = u + 1
    with computation(PARALLEL), interval(...):
        b = t
        c = u
---
# call: {"a": [[[1.0, 4.0, 0.0, 3.0, -1.0]]], "b": [[[-1.0, -2.0, -3.0, -4.0, -5.0]]], "c": [[[-1.0, -2.0, -3.0, -4.0, -5.0]]]}
# note: reads between two writes
# domain: [1, 1, 5]
# expect: {"b": {"data": [[[0.0, 0.0, 0.0, 0.0, -1.0]]]}, "c": {"data": [[[7.0, 7.0, 7.0, 7.0, -1.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(PARALLEL), interval(-1, None):
        t = a
    with computation(PARALLEL), interval(...):
        b = t
    with computation(PARALLEL), interval(0, -1):
        t = 7
    with computation(PARALLEL), interval(...):
        c = t
---
# call: {"a": [[[1.0, 4.0, 0.0, 3.0, -1.0]]], "b": [[[-1.0, -2.0, -3.0, -4.0, -5.0]]]}
# note: two writes one after the other, each of a part
# domain: [1, 1, 5]
# expect: {"b": {"data": [[[1.0, 14.0, 10.0, 23.0, 19.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(0, 1):
        t = a
    with computation(PARALLEL), interval(1, 3):
        t = a + 10
    with computation(PARALLEL), interval(3, None):
        t = a + 20
    with computation(PARALLEL), interval(...):
        b = t
---
# call: {"a": [[[1.0, 4.0, 0.0, 3.0, -1.0]]], "b": [[[-1.0, -2.0, -3.0, -4.0, -5.0]]]}
# note: passes at each point
# domain: [1, 1, 5]
# expect: {"b": {"data": [[[1.0, 4.0, 0.0, 4.0, 0.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(FORWARD), interval(0, 1):
        t = 1.0
    with computation(FORWARD), interval(1, None):
        while t < a:
            t += 2
    with computation(PARALLEL), interval(...):
        b = t
---
# call: {"a": {"data": [[[1.0, 4.0, 0.0, 3.0, -1.0, 2.0, 5.0]]], "origin": [0, 0, 1]}, "b": {"data": [[[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0]]], "origin": [0, 0, 1]}}
# note: a field with levels below and above the domain
# domain: [1, 1, 5]
# expect: {"b": {"data": [[[-1.0, 17.0, 15.0, 7.0, 7.0, 6.0, -7.0]]], "origin": [0, 0, 1]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(BACKWARD):
        with interval(-1, None):
            b = a
        with interval(0, -1):
            b = a + b[0, 0, 1]
    with computation(PARALLEL), interval(0, -1):
        b = b[0, 0, 0] * 2
    with computation(FORWARD), interval(...):
        b = b + a[0, 0, -1] + a[0, 0, 1]
---
# call: {"a": [[[1.0, 4.0, 0.0, 3.0, -1.0]]], "b": [[[-1.0, -2.0, -3.0, -4.0, -5.0]]]}
# note: two levels back
# domain: [1, 1, 5]
# expect: {"b": {"data": [[[8.0, 5.0, 9.0, 9.0, 14.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(FORWARD):
        with interval(0, 2):
            t = a
        with interval(2, None):
            t = t[0, 0, -1] + t[0, 0, -2]
    with computation(BACKWARD):
        with interval(-2, None):
            b = t
        with interval(0, -2):
            b = b[0, 0, 2] - t
---
# call: {"a": [[1, 2], [3, 4]], "b": [[0, 0], [0, 0]]}
# note: fields without levels, over one level: point by point, masks keep what was there
# domain: [2, 2, 1]
# expect: {"b": {"data": [[0.0, 6.0], [9.0, 12.0]]}}
@gtscript.stencil
def f(a: Field[IJ, float64], b: Field[IJ, float64]):
    with computation(FORWARD), interval(...):
        t = 2 * a
    with computation(BACKWARD), interval(0, 1):
        if a > 1:
            b = t + a
---
# call: {"a": [[1, 2], [3, 4]], "b": [[0, 0], [0, 0]]}
# note: a domain that is smaller than the fields
# domain: [2, 1, 1]
# expect: {"b": {"data": [[2.0, 0.0], [6.0, 0.0]]}}
@gtscript.stencil
def f(a: Field[IJ, float64], b: Field[IJ, float64]):
    with computation(FORWARD), interval(...):
        b = 2 * a
---
# call: {"a": [[[0, 0]], [[0, 0]]], "k": [1, -1]}
# note: a field over K is written in one sequential block with one over IJK: under a mask, from a temporary, from a loop's count
# domain: [2, 1, 2]
# expect: {"a": {"data": [[[2, 2]], [[2, 2]]]}, "k": {"data": [2, -1]}}
@gtscript.stencil
def f(a: Field[float64], k: Field[K, float64]):
    with computation(FORWARD), interval(...):
        if k > 0:
            k = k + 1
        a = 2
---
# call: {"a": [[[0, 0]], [[0, 0]]], "k": [1, -1]}
# domain: [2, 1, 2]
# expect: {"a": {"data": [[[3, 1]], [[3, 1]]]}, "k": {"data": [2, 0]}}
@gtscript.stencil
def f(a: Field[float64], k: Field[K, float64]):
    with computation(BACKWARD), interval(...):
        t = k + 1
        k = t
        a = t + 1
---
# call: {"a": [[[0, 0]], [[0, 0]]], "k": [1, -1]}
# domain: [2, 1, 2]
# expect: {"a": {"data": [[[1, 0]], [[1, 0]]]}, "k": {"data": [1, 0]}}
@gtscript.stencil
def f(a: Field[float64], k: Field[K, float64]):
    with computation(FORWARD), interval(...):
        c = 0.0
        while c < k:
            c += 1
        a = c
        k = c
---
# call: {"a": [[[0, 0]], [[0, 0]]], "k": [1, -1]}
# note: but not what varies along I
# domain: [2, 1, 2]
# error: type: `k` has no I axis (K), but what is assigned to it varies along I
# line: 5
@gtscript.stencil
def f(a: Field[float64], k: Field[K, float64]):
    with computation(FORWARD), interval(...):
        t = a + 1
        k = t
---
# call: {"a": [[[1, 2, 3, 4]], [[5, 6, 7, 8]]], "b": [[[0, 0, 0, 0]]], "c": [[[0, 0, 0, 0]]]}
# note: two recurrences in one column: one's temporary goes on beyond the domain, where there is no column of `b`
# domain: [1, 1, 4]
# expect: {"b": {"data": [[[1.0, 3.0, 6.0, 12.0]]]}, "c": {"data": [[[4.0, 8.0, 12.0, 24.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a
            b = t
        with interval(1, -1):
            t = t[0, 0, -1] + a
            b = t
        with interval(-1, None):
            t = t[0, 0, -1] * 2
            b = t
    with computation(PARALLEL), interval(...):
        c = t[1, 0, 0] - t
---
# call: {"a": [[[1, 2, 3, 4]], [[5, 6, 7, 8]]], "b": [[[0, 0, 0, 9]]], "c": [[[0, 0, 0, 0]]]}
# note: the same backwards, where `b` keeps a level and is read at the level before
# domain: [1, 1, 4]
# expect: {"b": {"data": [[[34.0, 16.0, 7.0, 9.0]]]}, "c": {"data": [[[24.0, 12.0, 8.0, 4.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(BACKWARD):
        with interval(-1, None):
            t = a
        with interval(2, -1):
            t = t[0, 0, 1] + a
            b = t
        with interval(1, 2):
            t = t[0, 0, 1] + a
            b = t + b[0, 0, 1]
        with interval(0, 1):
            t = t[0, 0, 1] * 2
            b = t + b[0, 0, 1]
    with computation(PARALLEL), interval(...):
        c = t[1, 0, 0] - t
