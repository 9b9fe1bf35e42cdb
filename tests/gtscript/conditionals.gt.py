# call: {"flag": true, "a": [[[0, 0]]], "b": [[[0, 0]]]}
# note: G8, G18: a scalar condition
# domain: [1, 1, 2]
# expect: {"a": {"data": [[[1.0, 1.0]]]}, "b": {"data": [[[2.0, 2.0]]]}}
# call: {"flag": false, "a": [[[0, 0]]], "b": [[[0, 0]]]}
# domain: [1, 1, 2]
# expect: {"a": {"data": [[[2.0, 2.0]]]}, "b": {"data": [[[1.0, 1.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], flag: bool):
    with computation(FORWARD), interval(...):
        if flag:
            a = 1
            b = 2
        else:
            a = 2
            b = 1
---
# call: {"field": [[[0, 2, -1]]], "a": [[[7, 7, 7]]], "b": [[[7, 7, 7]]]}
# note: G19: nonzero is true
# domain: [1, 1, 3]
# expect: {"a": {"data": [[[2.0, 1.0, 1.0]]]}, "b": {"data": [[[1.0, 2.0, 2.0]]]}}
@gtscript.stencil
def f(field: Field[float64], a: Field[float64], b: Field[float64]):
    with computation(PARALLEL):
        with interval(...):
            if field:
                a = 1
                b = 2
            else:
                a = 2
                b = 1
---
# call: {"a": [[[0, 1]]], "b": [[[0, 0]]]}
# note: the mask is not looked at again, though the branch changes what it was made of
# domain: [1, 1, 2]
# expect: {"a": {"data": [[[1.0, 0.0]]]}, "b": {"data": [[[10.0, 20.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        if a > 0:
            a = 0
            b = 20
        else:
            a = 1
            b = 10
---
# call: {"a": [[[-2, 0, 1, 3, 5]]], "b": [[[9, 9, 9, 9, 9]]]}
# domain: [1, 1, 5]
# expect: {"b": {"data": [[[-1.0, 9.0, 1.0, 2.0, 3.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        if a < 0:
            b = -1
        elif a == 0:
            pass
        elif a < 2:
            b = 1
        else:
            if a < 4:
                b = 2
            else:
                b = 3
---
# call: {"a": [[[1, 2]], [[0, 4]], [[5, 0]]], "b": [[[0, 0]]]}
# note: a masked temporary read with an offset: the mask is needed there, too
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[0.0, 40.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        if a:
            t = 10 * a
        b = t[1, 0, 0]
---
# call: {"a": [[[6, 0, 9]]], "b": [[[1, 1, 1]]]}
# note: a masked division is not done where the mask is not set
# domain: [1, 1, 3]
# expect: {"b": {"data": [[[2, 1, 1]]]}}
@gtscript.stencil
def f(a: Field[int64], b: Field[int64]):
    with computation(PARALLEL), interval(...):
        if a != 0:
            b = 12 // a
---
# call: {"a": [[[6, 0, 9]]], "b": [[[1, 1, 1]]]}
# domain: [1, 1, 3]
# expect: {"b": {"data": [[[2, -1, 1]]]}}
@gtscript.stencil
def f(a: Field[int64], b: Field[int64]):
    with computation(PARALLEL), interval(...):
        b = 12 // a if a != 0 else -1
---
# call: {"a": [[[6, 0, 9]]], "b": [[[false, false, false]]]}
# domain: [1, 1, 3]
# expect: {"b": {"data": [[[true, false, true]]]}}
@gtscript.stencil
def f(a: Field[int64], b: Field[bool]):
    with computation(PARALLEL), interval(...):
        b = a != 0 and 12 // a < 3
---
# call: {"a": [[[6, 0, 9]]], "b": [[[1, 1, 1]]]}
# domain: [1, 1, 3]
# error: runtime: integer division by zero
# at: 12 // a
@gtscript.stencil
def f(a: Field[int64], b: Field[int64]):
    with computation(PARALLEL), interval(...):
        b = 12 // a
---
# call: {"a": [[[1, 2, 3]]], "b": [[[0, 0, 0]]]}
# note: G9: out of bounds in a branch that is never taken
# domain: [1, 1, 3]
# error: runtime: `a[0, 0, 1]` is read out of bounds: at index 3 of `a` along K, whose size is 3
# at: a[0, 0, 1]
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        if a < 0:
            b = a[0, 0, 1]
---
# call: {"a": [[[0, 3, 1]], [[5, 9, 2]]], "b": [[[4, 4, 4]], [[4, 4, 4]]], "c": [[[0, 0, 0]], [[0, 0, 0]]]}
# note: G23, G25: every point makes its own number of passes
# domain: [2, 1, 3]
# expect: {"a": {"data": [[[4.0, 4.0, 4.0]], [[5.0, 9.0, 4.0]]]}, "c": {"data": [[[4.0, 1.0, 3.0]], [[0.0, 0.0, 2.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(FORWARD), interval(...):
        while a < b:
            c += 1
            a += 1
---
# call: {"a": [[[1, 2, 3]]], "n": [[[0, 0, 0]]]}
# note: loops in loops, branches in loops, levels below
# domain: [1, 1, 3]
# expect: {"n": {"data": [[[1.0, 5.0, 14.0]]]}}
@gtscript.stencil
def f(a: Field[float64], n: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            n = 1
        with interval(1, None):
            i = 0.0
            n = n[0, 0, -1]
            while i < a:
                j = 0.0
                while j < a:
                    if j >= 0:
                        n += 1
                    else:
                        n -= 100
                    j += 1
                i += 1
---
# call: {"a": [[[1]]]}
# note: an endless loop
# domain: [1, 1, 1]
# error: runtime: a `while` makes more than 10000000 passes
# only: jit O2 1 threads (the interpreter takes long)
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        while a > 0:
            a = a + 0
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: a `while` has no `else` here
@gtscript.stencil
def f(a: Field[float64]):
    with computation(FORWARD), interval(...):
        while a > 0:
            a = a - 1
        else:
            a = 2
---
# call: {"a": [[[5, 5, 5]]], "k": [1, 0, 1]}
# note: the condition is a field over K, the mask varies along K alone
# domain: [1, 1, 3]
# expect: {"a": {"data": [[[0.0, 5.0, 0.0]]]}}
@gtscript.stencil
def f(a: Field[float64], k: Field[K, float64]):
    with computation(PARALLEL), interval(...):
        if k > 0:
            a = 0
---
# call: {"a": [[[1, 2, 3]], [[4, 5, 6]]], "b": [[[0, 0, 0]]], "c": [[[0, 0, 0]]]}
# note: a loop that is needed on fewer columns than other statements of its block: there is nothing that would end it on the others
# domain: [1, 1, 3]
# expect: {"b": {"data": [[[0.0, 4.0, 8.0]]]}, "c": {"data": [[[0.0, 5.0, 6.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(FORWARD), interval(1, None):
        t = a
        w = a
        while w < 4:
            w += 1
        b = w + b[0, 0, -1]
    with computation(PARALLEL), interval(...):
        c = t[1, 0, 0]
