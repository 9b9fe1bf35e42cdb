# Small programs of many kinds.
# call: f [[1.0, 2.0], [3.0, 4.0]]
# types: ["[Float]", "[Float]"]
# expect: 11.0
@jit('[Float] -> [Float] -> Float')
def f(xs, ys):
    s = 0.0
    for i in range(len(xs)):
        s += xs[i] * ys[i]
    return s
---
# expect: [[1, 2], [3, 4]]
def f():
    m = [[1, 2], [3, 4]]
    return m
---
# call: [[3, 1, 2]]
# types: ["[Int]"]
# expect: [1, 2, 3]
def f(xs):
    out = []
    ys = list(xs)
    while len(ys) > 0:
        m = min(ys)
        out.append(m)
        zs = []
        seen = False
        for y in ys:
            if y == m and not seen:
                seen = True
            else:
                zs.append(y)
        ys = zs
    return out
---
# call: [12, 18]
# types: ["Int", "Int"]
# expect: 6
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a
---
# call: [10]
# types: ["Int"]
# expect: [55, 89]
def fib(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a, b
---
# call: [[1, 2, 3, 4, 5, 6], 3]
# types: ["[Int]", "Int"]
# expect: [[1, 2, 3], [4, 5, 6]]
def f(xs, k):
    out = []
    row = []
    for x in xs:
        row.append(x)
        if len(row) == k:
            out.append(row)
            row = []
    return out
---
# call: [[1, 2, 3]]
# types: ["[Int]"]
# expect: [6, 2.0, [0.0, 1.0]]
def mean(xs):
    return sum(xs) / len(xs)

def f(xs):
    m = mean(xs)
    d = [abs(x - m) for x in xs]
    return sum(xs), m, d[1:]
---
# expect: [true, false, true]
def f():
    return 2 in [1, 2, 3], 5 in (1, 2), 3 not in range(3)
---
# call: ["hello"]
# types: ["String"]
# expect: [5, "h", true, "hello!", ["h", "e", "l", "l", "o"]]
def f(s):
    return len(s), s[0], s == "hello", s + "!", [c for c in s]
---
# call: [5]
# types: ["Int"]
# expect: [5, 4, 3, 2, 1]
def f(n):
    out = []
    while True:
        if n == 0:
            break
        out.append(n)
        n -= 1
    return out
---
# call: [4]
# types: ["Int"]
# expect: [[0, 0], [1, 1], [2, 4], [3, 9]]
def f(n):
    return [(i, i * i) for i in range(n)]
---
# call: [[[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]]
# types: ["[[Float]]", "[[Float]]"]
# expect: [[2.0, 1.0], [4.0, 3.0]]
def matmul(a, b):
    out = []
    for i in range(len(a)):
        row = []
        for j in range(len(b[0])):
            s = 0.0
            for k in range(len(b)):
                s += a[i][k] * b[k][j]
            row.append(s)
        out.append(row)
    return out
---
# call: [3]
# types: ["Int"]
# expect: 10
def f(n):
    x = 0
    def g(y):
        return x + y
    x = 7
    return g(n)
---
# call: [[1, -2, 3]]
# types: ["[Int]"]
# expect: [1, 3]
def keep(xs):
    for x in xs:
        try:
            if x < 0:
                raise ValueError("neg")
            yield x
        except ValueError:
            continue
def f(xs):
    return list(keep(xs))
---
# expect: [3, 1]
class Stack(object):
    layout = Struct([('items', '[Int]')])
    def __init__(self):
        self.items = []
    def push(self, x):
        self.items.append(x)
    def pop(self):
        return self.items.pop()
    def __len__(self):
        return len(self.items)
def f():
    s = Stack()
    s.push(1)
    s.push(3)
    a = s.pop()
    return a, len(s)
---
# call: [3]
# types: ["Int"]
# expect: [2.0, 3.0, 4.0]
class P(object):
    layout = Struct([('x', 'Float')])
def f(n):
    ps = [P(i) for i in range(n)]
    return [p.x + 2 for p in ps]
---
# call: [true]
# types: ["Bool"]
# expect: 3
class P(object):
    layout = Struct([('x', 'Int')])
def f(c):
    if c:
        p = P(1)
    else:
        p = P(5)
    p.x += 2
    return p.x
---
# call: [true]
# types: ["Bool"]
# error: type: this cannot be changed
class P(object):
    layout = Struct([('x', 'Int')])
def f(c):
    a = P(1)
    b = P(2)
    p = b
    if c:
        p = a
    p.x += 2
    return a.x + b.x
---
# call: [true]
# types: ["Bool"]
# expect: [1, 2, 2]
def f(c):
    a = [1]
    b = [1, 2]
    p = b
    if c:
        p = a
    return len(p), len(b), b[1]
---
# call: [5]
# types: ["Int"]
# expect: 120
@jit('Int -> Int')
def f(n):
    r = 1
    for i in range(2, n + 1):
        r *= i
    return r
---
# expect: 7
def compose(f, g):
    return lambda x: f(g(x))
def h():
    return compose(lambda x: x + 1, lambda x: 2 * x)(3)
---
# call: [[1, 2, 3], [4, 5, 6]]
# types: ["[Int]", "[Int]"]
# expect: 32
def f(xs, ys):
    return reduce(lambda a, b: a + b, map(lambda x, y: x * y, xs, ys), 0)
---
# call: [4]
# types: ["Int"]
# expect: 6
def outer(n):
    for i in range(n):
        for j in inner(i):
            yield j
def inner(k):
    if k % 2 == 1:
        return
    yield k
    yield k + 1
def f(n):
    return sum(outer(n))
---
# call: [0]
# types: ["Int"]
# expect: "zero"
def f(x):
    try:
        try:
            y = 1 // x
        except ValueError:
            return "value"
        return "none"
    except ZeroDivisionError:
        return "zero"
---
# call: [2]
# types: ["Int"]
# expect: 12
def f(n):
    total = 0
    for i in range(3):
        try:
            total += 10 // (i - n)
        except ZeroDivisionError:
            total += 27
    return total
---
# call: [[1, 2, 3]]
# types: ["[Int]"]
# expect: [3, 2, 1]
def rev(xs):
    out = []
    for i in range(len(xs) - 1, -1, -1):
        out.append(xs[i])
    return out
---
# call: [7]
# types: ["Int"]
# expect: true
def prime(n):
    if n < 2:
        return False
    i = 2
    while i * i <= n:
        if n % i == 0:
            return False
        i += 1
    return True
---
# call: [[1, 2, 3, 4]]
# types: ["[Int]"]
# expect: [10, 24]
def f(xs):
    a = [0, 1]
    for x in xs:
        a[0] += x
        a[1] *= x
    return a
---
# call: [3]
# types: ["Int"]
# expect: 3
def f(n):
    it = iter(range(n))
    c = 0
    while True:
        try:
            x = next(it)
        except StopIteration:
            break
        c += 1
    return c
---
# call: [[1, 2]]
# types: ["[Int]"]
# expect: [[1, 1], [1, 2], [2, 1], [2, 2]]
def f(xs):
    return [(x, y) for x in xs for y in xs]
---
# call: f ["a", 1]
# types: ["String", "Int"]
# error: type: `h` is called with String and with Int64: an argument has one type
def g(h, x):
    h(x)
    return h(0)
def f(s, n):
    return g(lambda y: y, s)
---
# call: f [2.5]
# types: ["Float"]
# expect: [5.0, 0.0]
def g(h, x):
    return h(x), h(0)
def f(x):
    return g(lambda y: 2 * y, x)
---
# call: f [[1, 2], [3]]
# types: ["[Int]", "[Int]"]
# expect: [[1, 2, 3], [1, 4, 3]]
def concat(xs, ys):
    for g in (xs, ys):
        for x in g:
            yield x
def squares(xs):
    for x in xs:
        yield x * x
def f(xs, ys):
    return list(concat(xs, ys)), list(concat(squares(xs), ys))
---
# N41: overloads by what streams give: nobody gives vectors.
# call: f [[1, 2], [3, 4]]
# types: ["[Int]", "[Int]"]
# expect: [[1, 3], [2, 4]]
@overload('Stream[Vector a] -> Stream[Vector b] -> Stream[(Vector a, Vector b)]')
def zip(xs, ys):
    return xs.nothing
@overload('Stream a -> Stream b -> Stream (a, b)')
def zip(xs, ys):
    while True:
        try:
            yield (next(xs), next(ys))
        except StopIteration:
            break
def f(xs, ys):
    return zip(xs, ys)
---
# N22
# error: type: unsupported: a call of `pytypedef` outside of functions
pytypedef(builtins.int, int)
def f():
    return 1
---
# N9
# error: type: unsupported: channel
def f(x=1):
    channel.send(x)
    return x
def g():
    return f()
---
# error: type: unsupported: @llcodegen
@llcodegen('new_list')
def emit(c):
    return 1
---
# call: f [3]
# types: ["Int"]
# expect: [[0, 1, 2], 3, "Int64 or Float64"]
class List(object):
    layout = Struct([('items', '[Int]'), ('n', 'Int')])
    def __init__(self):
        self.items = []
        self.n = 0
    def append(self, x):
        self.items.append(x)
        self.n += 1
    def __iter__(self):
        for x in self.items:
            yield x
def name(x):
    return "Int64 or Float64" if typeof(x) == Int or typeof(x) == Float else "other"
def f(n):
    xs = List()
    for i in range(n):
        xs.append(i)
    return [x for x in xs], xs.n, name(n)
---
# call: f [[5, 6, 7], 1]
# types: ["[Int]", "Int"]
# expect: [6, 20, 3]
def f(xs, i):
    t = (10, 20, 30)
    x = xs[i]
    @signature('Int -> Int')
    def g(n):
        return n + 1
    return x, t[i], g(2)
---
# call: f {"n": 2, "x": 1.5}
# types: {"n": "Int", "x": "Float"}
# expect: 3.0
def f(x, n):
    return x * n
---
# call: f [1]
# types: ["Int"]
# error: type: expected 2 arguments, found 1
def f(x, n):
    return x * n
---
# call: f [null]
# types: ["Int"]
# expect: null
def f(x):
    return x
---
# call: f [5]
# error: type: the function `f` is not defined
def g(x):
    return x
---
# error: parse: expected
def f(:
    return 1
---
# call: Array [[1]]
# error: type: `Array` is a class
class Array(object):
    layout = Struct([('x', 'Int')])
---
# N19: a trait's defaults by way of another trait.
# expect: [3, 6]
class Sized(Trait):
    def size(self): ...
class Doubled(Sized):
    def twice(self):
        return 2 * self.size()
class Box(Doubled):
    layout = Struct([('n', 'Int')])
    def size(self):
        return self.n
@signature('(a:Sized) => a -> Int')
def size(x):
    return x.size()
def f():
    b = Box(3)
    return size(b), b.twice()
---
# Annotations.
# call: f [3]
# expect: 1.5
# type: Float64
def f(n: Int):
    x: Float = n
    return x / 2
---
# call: f [[1, 2, 3, 4]]
# types: ["[Int]"]
# expect: [[3, 4], 1]
def f(xs):
    it = iter(xs)
    n = 0
    for x in it:
        if x == 2:
            break
        n += x
    return list(it), n
---
# call: f [[1, 2, 3, 4]]
# types: ["[Int]"]
# expect: [[1, 3, 6, 10], 10]
# call: f [[1, 200, 3, 4]]
# types: ["[Int]"]
# expect: [[1, 201], -1]
class Acc(object):
    layout = Struct([('t', 'Int'), ('hist', '[Int]')])
    def __init__(self):
        self.t = 0
        self.hist = []
    def add(self, x):
        self.t += x
        self.hist.append(self.t)
        if self.t > 100:
            raise ValueError("too much")
def f(xs):
    a = Acc()
    try:
        for x in xs:
            a.add(x)
    except ValueError:
        a.t = -1
    return a.hist, a.t
---
# call: f [5]
# types: ["Int"]
# expect: [1, 1, 2, 3, 5]
def fibs():
    a, b = 1, 1
    while True:
        yield a
        a, b = b, a + b
def take(g, n):
    i = 0
    for x in g:
        if i >= n:
            return
        yield x
        i += 1
def f(n):
    return list(take(fibs(), n))
---
# call: f [[3, 1, 2]]
# types: ["[Int]"]
# expect: [1, 3, 2]
def f(xs):
    best = xs[0]
    for x in xs[1:]:
        best = min(best, x)
    return best, max(xs), xs[-1]
---
# call: f [[[1, 2], [3]]]
# types: ["[[Int]]"]
# expect: [3, [1, 2, 3], 6]
def f(xss):
    flat = [x for xs in xss for x in xs]
    return len(flat), flat, sum(sum(xs) for xs in xss)
---
# call: f [4]
# types: ["Int"]
# expect: [[1], [1, 1], [1, 2, 1], [1, 3, 3, 1]]
def f(n):
    rows = []
    row = [1]
    for i in range(n):
        rows.append(row)
        nxt = [1]
        for j in range(len(row) - 1):
            nxt.append(row[j] + row[j + 1])
        nxt.append(1)
        row = nxt
    return rows
---
# call: f [3]
# types: ["Int"]
# expect: [9, 1]
class Node(object):
    layout = Struct([('v', 'Int')])
def f(n):
    a = Node(1)
    b = Node(1)
    for i in range(n):
        a.v = a.v + 1
        if i == 1:
            a.v += 5
    return a.v, b.v
---
# call: f [true]
# types: ["Bool"]
# expect: [[1, 2], [1, 2]]
def f(c):
    xs = [1]
    ys = xs
    if c:
        ys.append(2)
    return xs, ys
---
# call: f [2]
# types: ["Int"]
# expect: 8
def f(n):
    def g(k):
        def h(j):
            return n + k + j
        return h(3)
    return g(3)
---
# call: f [[2, 0, 4]]
# types: ["[Int]"]
# expect: [6, -1, 3]
def inv(x):
    try:
        return 12 // x
    except ZeroDivisionError:
        return -1
def f(xs):
    return [inv(x) for x in xs]
---
# call: f [[2, 0, 4]]
# types: ["[Int]"]
# expect: -7
def f(xs):
    try:
        return sum(12 // x for x in xs)
    except ZeroDivisionError:
        return -7
---
# call: f [[2, 0, 4]]
# types: ["[Int]"]
# expect: [[6], 1]
def f(xs):
    out = []
    n = 0
    try:
        for x in xs:
            out.append(12 // x)
    except ZeroDivisionError:
        n = len(out)
    return out, n
---
# call: f [[2.5, 1.0]]
# types: ["[Float32]"]
# expect: [3.5, [5.0, 2.0], 2.5]
# type: (Float32, [Float32], Float32)
def f(xs):
    return sum(xs), [2 * x for x in xs], max(xs)
---
# call: f ["a", "b"]
# types: ["String", "String"]
# expect: [["a", "b", "ab"], true]
def f(a, b):
    xs = [a]
    xs.append(b)
    xs.append(a + b)
    return xs, a < b
