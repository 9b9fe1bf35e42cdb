# Lists are sorted in a stable way, by keys, downwards.
# call: [[3, -1, 2, -3]]
# types: ["[Int]"]
# expect: [[-3, -1, 2, 3], [3, 2, -1, -3], [-1, 2, 3, -3], [3, -3, 2, -1], [3, -1, 2, -3]]
# call: [[]]
# types: ["[Int]"]
# expect: [[], [], [], [], []]
def f(xs):
    ys = list(xs)
    ys.sort(key=abs, reverse=True)
    return sorted(xs), sorted(xs, reverse=True), sorted(xs, key=lambda x: abs(x)), ys, xs
---
# call: [["b", "a", "c"], [2.5, -1.0, 0.0]]
# types: ["[String]", "[Float]"]
# expect: [["a", "b", "c"], [-1.0, 0.0, 2.5], [[1, "z"], [2, "a"], [2, "b"]], [[2, "b"], [2, "a"], [1, "z"]], "b", [1, 3]]
def f(xs, ys):
    pairs = [(2, "b"), (1, "z"), (2, "a")]
    return sorted(xs), sorted(ys), sorted(pairs), sorted(pairs, key=lambda p: -p[0]), sorted(xs)[1], sorted((3, 1))
---
# A NaN is put behind all numbers, so that there is an order.
# call: [[1.0, "NaN", -2.0]]
# types: ["[Float]"]
# expect: [-2.0, 1.0, "NaN"]
def f(xs):
    return sorted(xs)
---
# Objects by `__lt__`.
# expect: [1, 2, 3]
class P(object):
    layout = Struct([('x', 'Int')])

    def __lt__(self, other):
        return self.x < other.x

def f():
    return [p.x for p in sorted([P(3), P(1), P(2)])]
---
# call: [[1, 2, 3], 4]
# types: ["[Int]", "Int"]
# expect: [[3, 2, 1], [3, 2, 1, 0], [3, 2, 1], 10, "cba"]
def f(xs, n):
    ys = [1, 2, 3]
    ys.reverse()
    s = 0
    for i in reversed(range(1, n)):
        s = s * 2 + i - 1
    return list(reversed(xs)), list(reversed(range(n))), ys, s, "".join(reversed("abc"))
---
# Searching.
# call: [[1, 2, 2, 3], 2]
# types: ["[Int]", "Int"]
# expect: [1, 2]
# call: [[1], 2]
# types: ["[Int]", "Int"]
# error: runtime: f, line 2: ValueError: the value is not in the list
def f(xs, x):
    return xs.index(x), xs.count(x)
---
# Insertion and removal.
# expect: [[8, 1, 9, 6, 2, 7], [1, 4], 3, 2, [], [1], [1, 3, 2]]
def f():
    a = [1, 2]
    a.insert(1, 9)
    a.insert(0, 8)
    a.insert(100, 7)
    a.insert(-2, 6)
    b = [1, 2, 3, 4]
    x = b.pop(2)
    y = b.pop(-2)
    c = [1, 2]
    c.clear()
    d = []
    d.insert(5, 1)
    e = [1, 2, 3, 2]
    e.remove(2)
    return a, b, x, y, c, d, e
---
# call: [3]
# types: ["Int"]
# error: runtime: IndexError: pop index out of range: index 3 of 2
# call: [1]
# types: ["Int"]
# expect: [[1], 2]
def f(i):
    xs = [1, 2]
    x = xs.pop(i)
    return xs, x
---
# Where an error is caught, the list is as it was.
# expect: [[1, 2], [1, 2]]
def f():
    xs = [1, 2]
    try:
        xs.pop(5)
    except IndexError:
        pass
    ys = [1, 2]
    try:
        ys.remove(5)
    except ValueError:
        pass
    return xs, ys
---
# call: [[1]]
# types: ["[Int]"]
# error: type: an argument is changed
# at: xs.sort()
def f(xs):
    xs.sort()
    return xs
---
# Slices are assigned.
# call: [3]
# types: ["Int"]
# expect: [[1, 9, 4], [0, 0], [1, 2, 7, 8], [5, 1], [1.0, 0.5]]
def f(n):
    a = [1, 2, n, 4]
    a[1:n] = [9]
    b = [1, 2]
    b[:] = (0, 0)
    c = [1, 2]
    c[5:] = [7, 8]
    d = [1]
    d[0:-5] = [5]
    e = [1, 2]
    e[1:] = [0.5]
    return a, b, c, d, e
---
# error: type: unsupported: an assignment to a slice with a step
def f():
    a = [1, 2]
    a[::2] = [1]
    return a
---
# Lists whose elements become wider numbers on some path, or in a loop.
# call: [3]
# types: ["Int"]
# expect: [[1.0, 0.5, 0.5, 0.5], [0.5], [0.0, 0.5, 1.0], [[0.5, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]
# type: ([Float64], [Float64], [Float64], [[Float64]])
def f(n):
    a = [1]
    for i in range(n):
        a.append(0.5)
    b = []
    if n > 1:
        b.append(0.5)
    else:
        b.append(1)
    c = [0] * n
    for i in range(n):
        c[i] = i / 2
    m = [[0] * n for i in range(n)]
    m[0][0] = 0.5
    return a, b, c, m
---
# call: [[1, 2], [3.5]]
# types: ["[Int]", "[Float]"]
# expect: [1.0, 2.0, 3.5]
def concat(xs, ys):
    for g in unroll((xs, ys)):
        for x in g:
            yield x

def f(xs, ys):
    return list(concat(xs, ys))
---
# Two lists are of two types.
# call: [3]
# types: ["Int"]
# error: type: the value is [Int64] on one path and [Float64] on another
def f(n):
    return [1] if n > 1 else [2.5]
---
# Extremes with keys and for nothing.
# call: [[3, -1, 2]]
# types: ["[Int]"]
# expect: [-1, -1, 3, -1, 25, 3]
# call: [[]]
# types: ["[Int]"]
# expect: [0, 7, -5, -5, 25, -5]
def f(xs):
    return max(xs, key=lambda x: -x, default=0), min(xs, key=abs, default=7), max(xs, default=-5), min(xs, default=-5), max(12, 25, 31, key=lambda x: x % 10), max((x for x in xs), default=-5)
---
# call: [[]]
# types: ["[Int]"]
# error: runtime: ValueError: `max` of nothing
def f(xs):
    return max(xs, key=abs)
---
# call: [[1, 2]]
# types: ["[Int]"]
# expect: [1, 2, -1, -1, 0, 9]
def g(n):
    for i in range(n):
        yield i

def f(xs):
    it = iter(xs)
    gen = g(1)
    return next(it, -1), next(it, -1), next(it, -1), next(it, -1), next(gen, 9), next(gen, 9)
---
# call: [2]
# types: ["Int"]
# expect: [[1, 1], 0, [0, 1], 3, [], [1, 2]]
def g():
    yield 0
    yield 1

def f(n):
    t = (1,) * 2
    a, b = g()
    return t, a, [a, b], sum(tuple(range(3))), () * 2, tuple((1, n))
---
# call: [1]
# types: ["Int"]
# expect: [3.5, 50, 6]
def f(n):
    s = n
    for i, x in unroll(enumerate((1, 2.5))):
        s += i * x
    t = 0
    for i, x in unroll(zip((1, 2), (10, 20))):
        t += i * x
    u = 0
    for i in unroll(reversed((1, 2, 3))):
        u += i
    return s, t, u
