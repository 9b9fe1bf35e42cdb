# N14, N44: generic functions: an instance for each combination of types.
# call: f [3, 2.5, "a"]
# types: ["Int", "Float", "String"]
# expect: [9, 6.25, "aa", 4.5, [3, 3], [2.5, 2.5]]
# type: (Int64, Float64, String, Float64, [Int64], [Float64])
def square(x):
    return x * x

def twice(x):
    return x + x

def pair(x):
    return [x, x]

def f(n, x, s):
    return square(n), square(x), twice(s), twice(x - 0.25), pair(n), pair(x)
---
# N28, N48: a merge of Int and Float is a Float, whatever is known of the argument.
# call: h [5]
# types: ["Int"]
# expect: [4.0, 9.0]
# type: (Float64, Float64)
def f(x):
    return x * x

def g(c):
    if c > 2:
        x = 2
    else:
        x = 3.0
    return f(x)

def h(c):
    return g(c), g(1)
---
# N25: a user's rule says what Int and Float unify to.
# call: g [5]
# types: ["Int"]
# error: type: TypeError: no numbers of two kinds
@overload(Int, Float64)
def unify(a, b):
    raise TypeError("no numbers of two kinds")

def g(c):
    if c > 2:
        x = 2
    else:
        x = 3.0
    return x
---
# call: g [5]
# types: ["Int"]
# expect: 2.0
# type: Float32
@overload(Int, Float64)
def unify(a, b):
    return Float32

def g(c):
    if c > 2:
        x = 2
    else:
        x = 3.0
    return x
---
# N20, N21: overloads: the nearest is called.
# call: f [1, 2.5]
# types: ["Int", "Float"]
# expect: ["int", "float", "string", "float32 float32"]
@overload('Int -> String')
def kind(x):
    return "int"

@overload('Float -> String')
def kind(x):
    return "float"

@overload('String -> String')
def kind(x):
    return "string"

@overload('Float32 -> Float32 -> String')
def both(a, b):
    return "float32 float32"

@overload('String -> String -> String')
def both(a, b):
    return "string string"

def f(n, x):
    return kind(n), kind(x), kind("s"), both(n, n)
---
# N27
# error: type: the call of `add` with (Int64, Int64) is ambiguous
# at: add(1, 2)
@overload('Int -> Float -> Float')
def add(a, b):
    return a + b

@overload('Float -> Int -> Float')
def add(a, b):
    return a + b

def f():
    return add(1, 2)
---
# N26: a rule of the program makes one of them nearer.
# expect: 1
@overload(Int, Float32)
def coercion_distance(a, b):
    return 1

@overload(Int, Float64)
def coercion_distance(a, b):
    return 7

@overload('Float32 -> Int')
def add(a):
    return 1

@overload('Float64 -> Int')
def add(a):
    return 2

def g(n):
    return add(n)

def f():
    n = 3
    return g(n)
---
# N26: TypeError means that nothing converts.
# call: f [1]
# types: ["Int"]
# error: type: TypeError: `half` expects (Float), found (Int64)
@overload(Int, Float64)
def coercion_distance(a, b):
    raise TypeError("no")

@jit('Float -> Float')
def half(x):
    return x / 2

def f(n):
    return half(n)
---
# error: type: two overloads of `f` take the same types
# line: 6
@overload('Int -> Int')
def f(x):
    return x

@overload('Int -> Float')
def f(x):
    return x
---
# error: type: `f` is defined twice: overloads need signatures
def f(x):
    return x

def f(y):
    return y
---
# N24: a conversion of the program.
# call: f [true]
# types: ["Bool"]
# expect: 101
@overload('Bool -> Int')
def convert(b):
    return 100 if b else 0

@jit('Int -> Int')
def g(n):
    return n + 1

def f(b):
    return g(b)
---
# Signatures: arguments and results are converted.
# call: f [3]
# expect: 1.5
# type: Float32
@jit('Int -> Float32')
def f(n):
    return n / 2
---
# call: f ["x"]
# error: type: argument `n`: expected Int64, found `"x"`
@jit('Int -> Float32')
def f(n):
    return n / 2
---
# error: type: the result of `f` is Float64, its signature says Int64
@jit('Int -> Int')
def f(n):
    return n / 2

def g():
    return f(1)
---
# N15: typed generics.
# call: f [[1, 2, 3]]
# expect: [1.5, 3.0, 4.5]
# type: [Float64]
@jit('(a -> b) -> [a] -> [b]')
def apply(g, xs):
    return [g(x) for x in xs]

@jit('[Int] -> [Float]')
def f(xs):
    return apply(lambda x: x * 1.5, xs)
---
# error: type: TypeError: `same` expects (a, a), found (Int64, String)
@jit('a -> a -> Bool')
def same(x, y):
    return x == y

def f():
    return same(1, "a")
---
# N16: traits as constraints.
# call: f [[1, 2, 3], "ab"]
# types: ["[Int]", "String"]
# expect: [[2, 4, 6], 3]
@signature('(it:Iterable[a], a:Integral) => (a -> b) -> it -> [b]')
def apply(f, xs):
    return map(f, xs)

@signature('(a:Number) => a -> a')
def more(x):
    return x + 1

def f(xs, s):
    return apply(lambda x: 2 * x, xs), more(len(s))
---
# call: f [[1.5]]
# types: ["[Float]"]
# error: type: TypeError: `apply` expects
@signature('(it:Iterable[a], a:Integral) => (a -> b) -> it -> [b]')
def apply(f, xs):
    return map(f, xs)

def f(xs):
    return apply(lambda x: 2 * x, xs)
---
# error: type: TypeError: `more` expects (a) where a: Number, found (String)
@signature('(a:Number) => a -> a')
def more(x):
    return x + 1

def f():
    return more("a")
---
# N29, N42: unrolled loops: each copy has types of its own.
# expect: [6, "1ab", 3]
def show(x):
    if isinstance(x, Int):
        return "1"
    else:
        return x

def f():
    s = 0
    for i in unroll((1, 2, 3)):
        s += i
    text = ""
    for x in unroll((7, "a", "b")):
        text = text + show(x)
    t = (1, 2.5, "z")
    n = 0
    for i in unroll(range(len(t))):
        if isinstance(t[i], String):
            n += i + 1
    return s, text, n
---
# call: f [3]
# types: ["Int"]
# error: type: `unroll` needs a range of constants
# at: range(n)
def f(n):
    s = 0
    for i in unroll(range(n)):
        s += i
    return s
---
# N18, N30: a specialised argument is known in the function.
# call: f [1.5]
# types: ["Float"]
# expect: [2.25, 3.375]
@specialize.arg(1)
def power(x, n):
    y = x
    for i in unroll(range(n - 1)):
        y = y * x
    return y

@specialize.argtypes('x')
def f(x):
    return power(x, 2), power(x, 3)
---
# N2, N42: isinstance leaves the other branch out.
# call: f [3]
# types: ["Int"]
# expect: 4
# call: f ["a"]
# types: ["String"]
# expect: 1
# call: f [[1, 2]]
# types: ["[Int]"]
# expect: 2
def f(x):
    if isinstance(x, (Int, Float)):
        return x + 1
    elif isinstance(x, Iterable) and not isinstance(x, Int):
        return len(x)
    else:
        return x.nothing
---
# call: f [3]
# types: ["Int"]
# error: type: recursive: `fact` calls itself
# at: fact(n - 1)
def fact(n):
    return 1 if n <= 1 else n * fact(n - 1)

def f(n):
    return fact(n)
---
# error: type: recursive
def even(n):
    return n == 0 or odd(n - 1)

def odd(n):
    return n != 0 and even(n - 1)

def f():
    n = 4
    return even(n)
---
# Defaults and arguments by name.
# expect: [12, 7, 5]
def g(a, b=2, c=3):
    return a * b + c - 3

def f():
    return g(6), g(2, c=6), g(b=1, a=5)
---
# error: type: TypeError: `g` takes 1 arguments, found 2
def g(a):
    return a

def f():
    return g(1, 2)
---
# N45, N46: functions as arguments, and x = g(x) in a loop.
# expect: [1024, 2.0]
def iterate(g, x, n):
    for i in range(n):
        x = g(x)
    return x

def f():
    return iterate(lambda x: 2 * x, 1, 10), iterate(lambda x: x / 2, 16, 3)
---
# Aliases of types.
# call: f [[1.0, 2.0]]
# expect: 3.0
Pair = Tuple[Float, 2]

@jit('Pair -> Float')
def f(p):
    return p[0] + p[1]
---
# N49: lists are of just the type that is written.
# call: f [[1, 2]]
# types: ["[Int]"]
# error: type: TypeError: `total` expects ([Float]), found ([Int64])
@jit('[Float] -> Float')
def total(xs):
    return sum(xs)

def f(xs):
    return total(xs)
---
# N17: a parameter of a trait is a constraint, and what is called is known.
# expect: [1, 2]
class Named(Trait):
    def number(self): ...

class A(Named):
    layout = Struct([('x', 'Int')])
    def number(self):
        return 1

class B(Named):
    layout = Struct([('x', 'Int')])
    def number(self):
        return 2

@jit('Named -> Int')
def number(x):
    return x.number()

def f():
    return number(A(0)), number(B(0))
---
# N51, N57: what needs Python's run time is not there.
# error: type: unsupported: getattr
def f():
    return getattr(1, "x")
---
# call: f [true]
# types: ["Bool"]
# error: type: the result of `convert` is Bool, its signature says Int64
@overload('Bool -> Int')
def convert(b):
    return b

@jit('Int -> Int')
def g(n):
    return n + 1

def f(b):
    return g(b)
---
# Names in signatures are looked up where these stand.
# error: type: the type `Foo` is not defined
# at: 'Int -> Foo'
@jit('Int -> Foo')
def g(n):
    return n

def f():
    return 1
---
# error: type: the trait `Foo` is not defined
# at: '(a:Foo) => a -> a'
@jit('(a:Foo) => a -> a')
def g(n):
    return n

def f():
    return 1
---
# error: type: the signature of `f` has 2 parameters, the function 1
# at: 'Int -> Int -> Int'
@jit('Int -> Int -> Int')
def f(n):
    return n
---
# N33: a Weld text gives an object where the signature says so.
# call: [2.0]
# types: ["Float"]
# expect: {"x": 3.0}
# type: V{x: Float64}
@jit
class V(object):
    layout = Struct([('x', 'Float')])

    @opaque('V -> V')
    def __add__(self, other): ...

@codegen(V.__add__, weld="|a: {f64}, b: {f64}| {a.$0 + b.$0}")
def emit_add(self, other): ...

def f(x):
    return V(x) + V(1.0)
---
# error: type: `@codegen` needs a function or method, `g` is none
# at: g
@codegen(g, weld="|x: f64| x")
def emit(x): ...

def f(x):
    return x
---
# error: type: unsupported: the variable `x` outside of functions
# at: x
x = 5
def f():
    return x
---
# N20: each signature of a function is an overload.
# call: f [2, "a"]
# types: ["Int", "String"]
# expect: [4, "aa", 1.5, [[1, 0.5], [2, 1.5]]]
@overload('Int -> Int')
@overload('String -> String')
@overload('Float -> Float')
def twice(x):
    return x + x

@overload('Stream[Vector a] -> Stream[Vector b] -> Stream[(Vector a, Vector b)]')
@overload('Stream a -> Stream b -> Stream (a, b)')
def pairs(xs, ys):
    while True:
        try:
            yield (next(xs), next(ys))
        except StopIteration:
            break

def f(n, s):
    return twice(n), twice(s), twice(0.75), list(pairs(iter([1, 2]), iter([0.5, 1.5])))
---
# error: type: two overloads of `g` take the same types
@overload('Int -> Int')
@overload('Int -> Float')
def g(x):
    return x

def f():
    return g(1)
---
# A signature has all parameters, but for a last one with a default.
# call: f [1]
# types: ["Int"]
# expect: [4, "a"]
@jit('Int -> b')
def g(x, y=3):
    return x + y

@jit('a -> a')
def h(x, y=""):
    return x + y

def f(n):
    return g(n), h("a")
---
# error: type: the signature of `g` has 1 parameters, the function 2
# line: 1
@jit('Int -> Int')
def g(x, y):
    return x

def f():
    return g(1, 2)
---
# error: type: `g` has no parameter `y`
# at: 'y'
@specialize.argtypes('x', 'y')
def g(x):
    return x

def f():
    return g(1)
---
# error: type: `g` has no parameter number 1: they count from 0
# at: 1
@specialize.arg(1)
def g(x):
    return x

def f():
    return g(1)
---
# error: type: TypeError: `g` has no argument `b`
# at: g(b=1)
def g(a):
    return a

def f():
    return g(b=1)
---
# N25: a rule may say a class, which a conversion makes.
# call: f [true]
# types: ["Bool"]
# expect: [3.0, {"value": 3.0}]
# call: f [false]
# types: ["Bool"]
# expect: [0.5, {"value": 0.5}]
@jit(immutable=True)
class Meters(object):
    layout = Struct([('value', 'Float')])

@overload(Int, Meters)
def unify(a, b):
    return Meters

@overload('Int -> Meters')
def convert(x):
    return Meters(x)

def f(c):
    if c:
        x = 3
    else:
        x = Meters(0.5)
    return x.value, x
---
# N26: the error has the text of the rule that refuses.
# call: f [1]
# types: ["Int"]
# error: type: TypeError: `g` expects (Float), found (Int64): whole numbers stay whole
@overload(Int, Float)
def coercion_distance(a, b):
    raise TypeError("whole numbers stay whole")

@jit('Float -> Float')
def g(x):
    return x

def f(n):
    return g(n)
---
# call: f [1.5]
# types: ["Float"]
# error: type: TypeError: `f` expects (Int), found (Float64)
@jit('Int -> Int')
def f(x):
    return x
---
# N10: the number of a tuple's values is a parameter: it decides between overloads, and the body sees it.
# call: f [1, 2.5]
# types: ["Int", "Float"]
# expect: [2, 3, "a pair", 12, 5.0]
@overload('Tuple[Int, 2] -> Int')
def size(t):
    return 2

@overload('Tuple[Int, 3] -> Int')
def size(t):
    return 3

@overload('Tuple[Int, String] -> String')
def size(t):
    return "a " + t[1]

@jit('Tuple[a, n] -> a')
def total(t):
    s = t[0]
    for x in unroll(t[1:]):
        s += x
    return s * n

def f(n, x):
    return size((n, n)), size((n, n, n)), size((n, "pair")), total((n, n, 2)), total((x, 0.0))
---
# call: f [1]
# types: ["Int"]
# error: type: TypeError: `size` expects (Tuple[Int, 2]), found ((Int64, Int64, Int64))
@jit('Tuple[Int, 2] -> Int')
def size(t):
    return 2

def f(n):
    return size((n, n, n))
