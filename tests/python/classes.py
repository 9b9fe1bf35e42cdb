# N1, N4, N47: objects with a layout; special methods.
# call: f [1.0, 2.0]
# types: ["Float", "Float"]
# expect: {"x": 11.0, "y": 22.0}
# type: Point{x: Float64, y: Float64}
# call: g [3.0, 4.0]
# types: ["Float", "Float"]
# expect: [5.0, true, false, {"x": -3.0, "y": -4.0}, 2, 4.0]
@jit(immutable=True)
class Point(object):
    layout = Struct([('x', 'Float'), ('y', 'Float')])

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def __neg__(self):
        return Point(-self.x, -self.y)

    def __eq__(self, other):
        return self.x == other.x and self.y == other.y

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return self.x if i == 0 else self.y

    def norm(self):
        return sqrt(self.x ** 2 + self.y ** 2)

def f(a, b):
    return Point(a, b) + Point(10.0, 20.0)

def g(a, b):
    p = Point(a, b)
    return p.norm(), p == Point(a, b), p != Point(a, b), -p, len(p), p[1]
---
# N6: mutable objects are shared inside of a call.
# call: f [3]
# types: ["Int"]
# expect: [3, 3, 6, [0, 1, 2]]
@jit
class Counter(object):
    layout = Struct([('n', 'Int'), ('log', '[Int]')])

    def __init__(self):
        self.n = 0
        self.log = []

    def bump(self):
        self.log.append(self.n)
        self.n += 1

def many(c, n):
    for i in range(n):
        c.bump()

def f(n):
    c = Counter()
    d = c
    many(d, n)
    a = c.n
    b = d.n
    c.n = c.n * 2
    return a, b, d.n, c.log
---
# N4
# error: type: the field `x` of `P` is immutable
@jit(immutable=True)
class P(object):
    layout = Struct([('x', 'Int')])

def f():
    p = P(1)
    p.x = 2
    return p.x
---
# expect: 5
class P(object):
    layout = Struct([('x', 'Int'), ('y', 'Int')], immutable=['x'])

def f():
    p = P(1, 2)
    p.y = 4
    return p.x + p.y
---
# error: type: the field `x` of `P` is immutable
# line: 6
class P(object):
    layout = Struct([('x', 'Int'), ('y', 'Int')], immutable=['x'])

def f():
    p = P(1, 2)
    p.x = 4
    return p.x
---
# N10, N11: type parameters: types and numbers, seen by methods.
# call: f [[1.0, 2.0, 3.0]]
# types: ["[Float]"]
# expect: [6.0, 2, {"dtype": 0}]
# error: type: AttributeError
@jit('Array[Type dtype, Int ndim]')
class Array(object):
    layout = Struct([('data', '[dtype]'), ('strides', 'Tuple[Int, ndim]')])

def f(xs):
    a = Array[Double, 2](xs, (1, 2))
    return a.nothing
---
# call: f [[1.0, 2.0, 3.0]]
# types: ["[Float]"]
# expect: [3.0, 2, 6.0, 1.0]
@jit('Array[Type dtype, Int ndim]')
class Array(object):
    layout = Struct([('data', '[dtype]'), ('strides', 'Tuple[Int, ndim]')])

    @signature('Tuple[Int, ndim] -> dtype')
    def __getitem__(self, indices):
        at = 0
        for i in unroll(range(ndim)):
            at += indices[i] * self.strides[i]
        return self.data[at]

    def rank(self):
        return ndim

    def total(self):
        return sum(self.data)

def f(xs):
    a = Array[Double, 2](xs, (2, 1))
    return a[1, 0], a.rank(), a.total(), a[0, 0]
---
# error: type: `Array` takes 2 parameters, found 1
@jit('Array[Type dtype, Int ndim]')
class Array(object):
    layout = Struct([('data', '[dtype]'), ('strides', 'Tuple[Int, ndim]')])

def f():
    return Array[Double]([1.0], (1,)).data
---
# N20: overloaded methods.
# expect: [7, 10.5, "n5"]
class Neat(object):
    layout = Struct([('value', 'Int')])

    @signature('Int -> Int')
    def __add__(self, other):
        return self.value + other

    @signature('Float -> Float')
    def __add__(self, other):
        return self.value * 2 + other

    @signature('String -> String')
    def __add__(self, other):
        return other + "5"

def f():
    n = Neat(5)
    return n + 2, n + 0.5, n + "n"
---
# N16, N19: traits: required methods, defaults, constraints.
# expect: [12.0, 24.0, "shape", 36.0]
class Shape(Trait):
    def area(self): ...

    def double(self):
        return 2 * self.area()

    def name(self):
        return "shape"

class Rectangle(Shape):
    layout = Struct([('w', 'Float'), ('h', 'Float')])

    def area(self):
        return self.w * self.h

@signature('Shape -> Float')
def measure(s):
    return s.area() * 3

def f():
    r = Rectangle(3, 4)
    return r.area(), r.double(), r.name(), measure(r)
---
# error: type: the class `R` has no method `area`, which the trait `Shape` requires
# line: 4
class Shape(Trait):
    def area(self): ...

class R(Shape):
    layout = Struct([('w', 'Float')])

def f():
    return 1
---
# error: type: TypeError: `measure` expects (Shape), found (Float64)
class Shape(Trait):
    def area(self): ...

@signature('Shape -> Float')
def measure(s):
    return s.area()

def f():
    return measure(1.0)
---
# N12, N23
# error: type: unsupported: inheritance of `Base`
class Base(object):
    layout = Struct([('x', 'Int')])

class Derived(Base):
    layout = Struct([('y', 'Int')])
---
# N7
# error: type: unsupported: __del__
class A(object):
    layout = Struct([('x', 'Int')])
    def __del__(self):
        pass
---
# N5
# error: type: unsupported: `stack`
@jit(stack=True)
class A(object):
    layout = Struct([('x', 'Int')])
---
# N2
# error: parse: the signature "Char * -> Int": pointers are not supported
@jit('Char * -> Int')
def f(x):
    return 1
---
# error: type: the class `A` has no `layout`
class A(object):
    def f(self):
        return 1
---
# Iteration by __iter__ and __next__, calls by __call__.
# expect: [[0, 1, 2], [3, 2, 1], 14, [2, 4]]
class Up(object):
    layout = Struct([('n', 'Int')])
    def __iter__(self):
        for i in range(self.n):
            yield i

class Down(object):
    layout = Struct([('n', 'Int')])
    def __iter__(self):
        return self
    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n + 1

class Times(object):
    layout = Struct([('k', 'Int')])
    def __call__(self, x):
        return self.k * x

class Seq(object):
    layout = Struct([('xs', '[Int]')])
    def __len__(self):
        return len(self.xs)
    def __getitem__(self, i):
        return 2 * self.xs[i]

def f():
    return list(Up(3)), list(Down(3)), Times(7)(2), [x for x in Seq([1, 2])]
---
# N32, N33: opaque functions with Weld text.
# call: f [2.0]
# types: ["Float"]
# expect: [5.0, 3, 7]
@opaque('Float -> Float')
def affine(x): ...

@codegen(affine, weld="|x: f64| x * 2.0 + 1.0")
def emit(x): ...

@opaque('Int -> Int', eval_if_const=True)
def kept(x):
    return x + 1

class Box(object):
    layout = Struct([('v', 'Int')])
    @opaque('Int -> Int')
    def plus(self, other): ...

@codegen(Box.plus, weld="|b: {i64}, other: i64| b.$0 + other")
def emit_plus(b, other): ...

def f(x):
    return affine(x), kept(2), Box(4).plus(3)
---
# error: type: the Weld text of `g`
@opaque('Float -> Float')
def g(x): ...

@codegen(g, weld="|x: f64| x +")
def emit(x): ...

def f():
    return g(1.0)
---
# error: type: `g` has no implementation
@opaque('Float -> Float')
def g(x): ...

def f():
    return g(1.0)
---
# Aggregates: a list for each parameter of step.
# call: Mean [[1.0, 2.0, 6.0]]
# types: ["[Float]"]
# expect: 3.0
# call: Mean [[]]
# types: ["[Float]"]
# error: runtime: ZeroDivisionError
# call: Dot [[1, 2, 3], [4, 5, 6]]
# expect: 32
@aggregate
class Mean(object):
    layout = Struct([('total', 'Float'), ('n', 'Int')])

    def __init__(self):
        self.total = 0.0
        self.n = 0

    def step(self, x):
        self.total += x
        self.n += 1

    def merge(self, other):
        self.total += other.total
        self.n += other.n

    def result(self):
        return self.total / self.n

@aggregate('Int -> Int -> Int')
class Dot(object):
    layout = Struct([('s', 'Int')])
    def __init__(self):
        self.s = 0
    def step(self, x, y):
        self.s += x * y
    def merge(self, other):
        self.s += other.s
    def result(self):
        return self.s
---
# Properties, constants, and the special methods of `in` and of assignments with an operator.
# call: [5]
# types: ["Int"]
# expect: [8, true, false, 16, 10, 10, 7, "A of 8"]
class A(object):
    layout = Struct([('x', 'Int')])
    LIMIT = 10

    def __iadd__(self, other):
        self.x += other
        return self

    def __contains__(self, value):
        return value == self.x

    @property
    def double(self):
        return 2 * self.x

    def __and__(self, other):
        return self.x & other

    def __str__(self):
        return f"A of {self.x}"

def f(n):
    a = A(n)
    a += 3
    return a.x, 8 in a, 9 in a, a.double, a.LIMIT, A.LIMIT, A(15) & 7, str(a)
---
# Parameters of classes may have names like types.
# call: [[1.0, 2.0]]
# types: ["[Float]"]
# expect: [2.0, 2]
@jit('Box[Type T, Int N]')
class Box(object):
    layout = Struct([('data', '[T]'), ('shape', 'Tuple[Int, N]')])

    @signature('Int -> T')
    def __getitem__(self, i):
        return self.data[i]

    def rank(self):
        return N

def f(xs):
    b = Box[Float, 2](xs, (1, 2))
    return b[1], b.rank()
---
# error: type: the type `Foo` is not defined
# at: ('x', 'Foo')
class A(object):
    layout = Struct([('x', 'Foo')])

def f():
    return 1
---
# error: type: `immutable` names `y`, which is no field
# at: 'y'
class A(object):
    layout = Struct([('x', 'Int')], immutable=['y'])

def f():
    return 1
---
# N10: in methods the parameters stand for what they are, also as those of classes.
# call: f [2]
# types: ["Int"]
# expect: [2.5, 2, [2.0, 4.0, 6.0], [1.0, 2.0], 28.0]
@jit('Pair[Type a, Type b]')
class Pair(object):
    layout = Struct([('first', 'a'), ('second', 'b')])

    def swapped(self):
        return Pair[b, a](self.second, self.first)

@jit('Vec[Type T, Int n]')
class Vec(object):
    layout = Struct([('cells', '[T]')])

    def scaled(self, k):
        return Vec[T, n]([x * k for x in self.cells])

    def first(self):
        return Vec[T, n - 1](self.cells[:n - 1])

    def paired(self):
        return Pair[Vec[T, n], T](self, self.cells[0])

    @signature('Vec[T, n] -> T')
    def dot(self, other):
        return sum([x * y for x, y in zip(self.cells, other.cells)])

def f(k):
    p = Pair[Int, Float](k, 2.5).swapped()
    v = Vec[Float, 3]([1.0, 2.0, 3.0])
    return p.first, p.second, v.scaled(k).cells, v.first().cells, v.dot(v.scaled(2.0).paired().first)
---
# error: type: the type `b` is not known
# at: b
@jit('Box[Type a]')
class Box(object):
    layout = Struct([('x', 'a')])

    def other(self):
        return Box[b](self.x)

def f():
    return Box[Int](1).other().x
---
# error: type: expected a type or a number that is known, `m` is Int64
@jit('Box[Type a, Int n]')
class Box(object):
    layout = Struct([('x', 'a')])

    def other(self, m):
        return Box[a, m](self.x)

def f():
    k = 1
    for i in range(3):
        k += i
    return Box[Int, 1](1).other(k).x
