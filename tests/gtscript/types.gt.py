# call: {"a": [[[7, -7]]], "b": [[[0, 0]]], "c": [[[0, 0]]], "d": [[[0, 0]]], "e": [[[0, 0]]]}
# note: division as in Python
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[3.5, -3.5]]]}, "c": {"data": [[[3, -4]]]}, "d": {"data": [[[1, 1]]]}, "e": {"data": [[[49, 49]]]}}
# type: {b: Field[IJK, float64], c: Field[IJK, int32], d: Field[IJK, int64], e: Field[IJK, int64]}
@gtscript.stencil
def f(a: Field[int64], b: Field[float64], c: Field[int32], d: Field[int64], e: Field[int]):
    with computation(PARALLEL), interval(...):
        b = a / 2
        c = a // 2
        d = a % 2
        e = a ** 2
---
# call: {"a": [[[7.5, -7.5]]], "c": [[[0, 0]]], "d": [[[0, 0]]]}
# domain: [1, 1, 2]
# expect: {"c": {"data": [[[3.0, -4.0]]]}, "d": {"data": [[[1.5, 0.5]]]}}
@gtscript.stencil
def f(a: Field[float64], c: Field[float64], d: Field[float64]):
    with computation(PARALLEL), interval(...):
        c = a // 2
        d = mod(a, 2)
---
# call: {"a": [[[0.1]]], "b": [[[false]]], "c": [[[0]]]}
# note: a constant takes the width of the field; float64 is computed in float64
# domain: [1, 1, 1]
# expect: {"b": {"data": [[[true]]]}, "c": {"data": [[[0.1]]]}}
@gtscript.stencil
def f(a: Field[float32], b: Field[bool], c: Field[float32]):
    with computation(PARALLEL), interval(...):
        b = a == 0.1
        c = float64(a)
---
# call: {"a": [[[2.9, -2.9, 0.0]]], "b": [[[0, 0, 0]]], "c": [[[false, false, false]]], "d": [[[0, 0, 0]]]}
# note: values are converted to the field's type
# domain: [1, 1, 3]
# expect: {"b": {"data": [[[2, -2, 0]]]}, "c": {"data": [[[true, true, false]]]}, "d": {"data": [[[4, -4, 0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[int32], c: Field[bool], d: Field[int64]):
    with computation(PARALLEL), interval(...):
        b = a
        c = a
        d = int(a) * 2
---
# call: {"b": [[[0, 0]]]}
# note: G26: an integer into a field of floats, a temporary that becomes one of floats
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[3.5, 3.5]]]}}
@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        tmp = 3
        tmp += 0.5
        b = tmp
---
# call: {"b": [[[0]]]}
# domain: [1, 1, 1]
# expect: {"b": {"data": [[[3.0]]]}}
@gtscript.stencil
def f(b: Field[float64]):
    with computation(PARALLEL), interval(...):
        tmp: int32 = 3.7
        b = tmp
---
# call: {"a": [[[1]]], "b": [[[0]]]}
# domain: [1, 1, 1]
# error: type: `tmp` is int32 already, found float64
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        tmp: int32 = 3
        tmp: float64 = a
        b = tmp
---
# call: {"a": [[[4, "nan", "inf", -1]]], "b": [[[0, 0, 0, 0]]], "c": [[[false, false, false, false]]], "d": [[[false, false, false, false]]], "e": [[[false, false, false, false]]]}
# domain: [1, 1, 4]
# expect: {"b": {"data": [[[2.0, "NaN", "Infinity", "NaN"]]]}, "c": {"data": [[[false, true, false, false]]]}, "d": {"data": [[[false, false, true, false]]]}, "e": {"data": [[[true, false, false, true]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[bool], d: Field[bool], e: Field[bool]):
    with computation(PARALLEL), interval(...):
        b = sqrt(a)
        c = isnan(a)
        d = isinf(a)
        e = isfinite(a)
---
# call: {"a": [[[-1.5, 2.5]]], "b": [[[0, 0]]], "c": [[[0, 0]]], "d": [[[0, 0]]], "e": [[[0, 0]]]}
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[-2.0, 2.0]]]}, "c": {"data": [[[-1.0, 3.0]]]}, "d": {"data": [[[-1.0, 2.0]]]}, "e": {"data": [[[1.5, 2.5]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64], d: Field[float64], e: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = floor(a)
        c = ceil(a)
        d = trunc(a)
        e = abs(a)
---
# call: {"a": [[[0.5]]], "b": [[[0]]]}
# domain: [1, 1, 1]
# expect: {"b": {"data": [[[13.26285048875655]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = exp(a) + log(a) + log10(a) + sin(a) + cos(a) + tan(a) + asin(a) + acos(a) + atan(a) + sinh(a) + cosh(a) \
            + tanh(a) + erf(a) + sqrt(a) + a ** 0.5 + a ** 3 + a ** -1 + min(a, 1, 2) + max(a, 1, 2)
---
# call: {"a": [[[1, "nan", 3]]], "b": [[[2, 2, 2]]], "c": [[[0, 0, 0]]], "d": [[[0, 0, 0]]]}
# note: what is no number is passed on
# domain: [1, 1, 3]
# expect: {"c": {"data": [[[1.0, "NaN", 2.0]]]}, "d": {"data": [[[2.0, "NaN", 3.0]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64], d: Field[float64]):
    with computation(PARALLEL), interval(...):
        c = min(a, b)
        d = max(b, a)
---
# call: {"a": [[[2, 3]]], "n": [[[10, 0]]], "b": [[[0, 0]]]}
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[1024, 1]]]}}
# call: {"a": [[[2, 3]]], "n": [[[1, -1]]], "b": [[[0, 0]]]}
# domain: [1, 1, 2]
# error: runtime: an integer to a negative integer power: 3 ** -1
@gtscript.stencil
def f(a: Field[int64], n: Field[int64], b: Field[int64]):
    with computation(PARALLEL), interval(...):
        b = a ** n
---
# call: {"a": [[[true, false]]], "b": [[[0, 0]]], "c": [[[false, false]]]}
# note: booleans count
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[3, 1]]]}, "c": {"data": [[[false, true]]]}}
@gtscript.stencil
def f(a: Field[bool], b: Field[int64], c: Field[bool]):
    with computation(PARALLEL), interval(...):
        b = a + a + 1
        c = not a
---
# call: {"a": [[[1, 5]]], "b": [[[false, false]]]}
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[true, false]]]}}
@gtscript.stencil
def f(a: Field[int32], b: Field[bool]):
    with computation(PARALLEL), interval(...):
        b = 0 < a <= 3 < 4 or a > 3000000000
---
# call: {"a": [[[1, 5]]]}
# domain: [1, 1, 2]
# error: type: the constant 3000000000 does not fit into int32
# at: 3000000000
@gtscript.stencil
def f(a: Field[int32]):
    with computation(PARALLEL), interval(...):
        a = a + 3000000000
---
# call: {"a": [[[1]]]}
# domain: [1, 1, 1]
# error: type: expected a dtype (float64, float32, int64, int32, bool), found `int8`
@gtscript.stencil
def f(a: Field[int8]):
    with computation(PARALLEL), interval(...):
        a = 1
---
# call: {"a": [[[1]]]}
# types: {"a": "Field[float64]"}
# domain: [1, 1, 1]
# expect: {"a": {"data": [[[2.0]]]}}
# call: {"a": [[[1]]]}
# types: {"a": "Field[IJ, float64]"}
# domain: [1, 1, 1]
# error: type: `a` is Field[IJK, float64], the argument is given as Field[IJ, float64]
@gtscript.stencil
def f(a: gtscript.Field[gtscript.IJK, np.float64]):
    with computation(PARALLEL), interval(...):
        a = a + 1
---
# call: {"a": [[[0, -0.0, 3, -3, -1]]], "b": [[[0, 0, 0, 0, 0]]], "c": [[[0, 0, 0, 0, 0]]], "d": [[[0, 0, 0, 0, 0]]], "e": [[[0, 0, 0, 0, 0]]]}
# note: zeros have the sign that NumPy gives them: the divisor's, and the quotient's
# domain: [1, 1, 5]
# expect: {"b": {"data": [[["inf", "inf", "inf", "inf", 0.5]]]}, "c": {"data": [[["-inf", "-inf", "-inf", "-inf", -1]]]}, "d": {"data": [[["inf", "-inf", 1, -1, -1]]]}, "e": {"data": [[["-inf", "inf", -1, 1, "inf"]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64], d: Field[float64], e: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = 1 / (a % 3)
        c = 1 / (a % -3)
        d = 1 / (a // 3)
        e = 1 / (a // -3)
---
# call: {"a": [[[1]]], "b": [[[0]]], "c": [[[0]]], "d": [[[0]]]}
# note: constants are computed as values are
# domain: [1, 1, 1]
# expect: {"b": {"data": [[[9]]]}, "c": {"data": [[["-inf"]]]}, "d": {"data": [[["nan"]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[float64], c: Field[float64], d: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = 1.0 // 0.1
        c = a / (0.0 % -3.0)
        d = min(1.0, sqrt(-1.0))
---
# call: {"a": [[[-2147483648, 7]]], "d": [[[-1, -1]]], "b": [[[0, 0]]], "c": [[[0, 0]]]}
# note: the least integer by -1 wraps
# domain: [1, 1, 2]
# expect: {"b": {"data": [[[-2147483648, -7]]]}, "c": {"data": [[[-2147483648, -7]]]}}
@gtscript.stencil
def f(a: Field[int32], d: Field[int32], b: Field[int32], c: Field[int32]):
    with computation(PARALLEL), interval(...):
        b = a // d
        c = a // -1
---
# call: {"a": [[[1]]]}
# note: in the condition of a loop, too
# domain: [1, 1, 1]
# error: type: the constant 9223372036854775808 does not fit into int64
@gtscript.stencil
def f(a: Field[int64]):
    with computation(PARALLEL), interval(...):
        while a < 9223372036854775808:
            a += 1
---
# call: {"a": [[["inf"]]], "b": [[[0]]], "c": [[[0]]], "d": [[[0]]]}
# note: floats beyond integers are the nearest integer, constants as well
# domain: [1, 1, 1]
# expect: {"b": {"data": [[[2147483647]]]}, "c": {"data": [[[2147483647]]]}, "d": {"data": [[[-9223372036854775808]]]}}
@gtscript.stencil
def f(a: Field[float64], b: Field[int32], c: Field[int32], d: Field[int64]):
    with computation(PARALLEL), interval(...):
        b = a
        c = 3e9
        d = int(-1e30)
