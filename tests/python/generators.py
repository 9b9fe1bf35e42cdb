# N35: generators run in their consumer.
# call: f [[1, 2, 3, 4]]
# types: ["[Int]"]
# expect: [[1, 4, 9, 16], 30, [4, 16], 2]
def squares(xs):
    for x in xs:
        yield x * x

def even(xs):
    for x in xs:
        if x % 2 == 0:
            yield x

def f(xs):
    n = 0
    for x in even(squares(xs)):
        n += 1
    return list(squares(xs)), sum(squares(xs)), [x for x in even(squares(xs))], n
---
# N37: several yields: the body is there for each.
# expect: [8, [5, 5, 5, 5, 5, 5, 5, 5]]
def f(x):
    yield x
    yield x

def g(xs):
    for x in xs:
        yield x
        yield x

def h():
    n = 0
    for i in g(g(f(5))):
        n += 1
    return n, list(g(g(f(5))))
---
# N38: concatenation, by two loops, by a loop over tuples, by yield from.
# call: f [[1, 2], [3]]
# types: ["[Int]", "[Int]"]
# expect: [[1, 2, 3], [1, 2, 3], [1, 2, 3], 6]
def concat(xs, ys):
    for x in xs:
        yield x
    for y in ys:
        yield y

def chain(xs, ys):
    for g in unroll((xs, ys)):
        for x in g:
            yield x

def delegate(xs, ys):
    yield from xs
    yield from ys

def f(xs, ys):
    return list(concat(xs, ys)), list(chain(xs, ys)), list(delegate(xs, ys)), sum(concat(xs, ys))
---
# N39: zip by next and StopIteration.
# call: f [[1, 2, 3], [10, 20]]
# types: ["[Int]", "[Int]"]
# expect: [[[1, 10], [2, 20]], 50]
def zip(xs, ys):
    while True:
        try:
            yield (next(xs), next(ys))
        except StopIteration:
            break

def f(xs, ys):
    return list(zip(iter(xs), iter(ys))), sum(x * y for x, y in zip(iter(xs), iter(ys)))
---
# N39, N52: the same of generators and of x.__next__().
# call: f [[1, 2, 3], [10, 20]]
# types: ["[Int]", "[Int]"]
# expect: [[1, 20], [4, 40]]
def double(xs):
    for x in xs:
        yield x + x

def squares(xs):
    for x in xs:
        yield x * x

def pairs(xs, ys):
    while True:
        try:
            a = xs.__next__()
            b = ys.__next__()
            yield (a, b)
        except StopIteration:
            break

def f(xs, ys):
    return list(pairs(squares(xs), double(ys)))
---
# N36: stored once and consumed once; a second time it has no values.
# call: f [[1, 2, 3]]
# types: ["[Int]"]
# expect: [6, 0, [2, 3], 1]
def f(xs):
    g = (x for x in xs)
    a = sum(g)
    b = sum(g)
    it = iter(xs)
    first = next(it)
    return a, b, list(it), first
---
# break, continue and return in a consumer.
# call: f [[5, 1, 7, 9]]
# types: ["[Int]"]
# expect: [6, 1, 7]
def each(xs):
    for x in xs:
        yield x
    yield 100

def stop(xs):
    s = 0
    for x in each(xs):
        if x == 7:
            break
        s += x
    return s

def find(xs, y):
    i = 0
    for x in each(xs):
        if x == y:
            return i
        i += 1
    return -1

def skip(xs):
    s = 0
    for x in each(xs):
        if x != 7:
            continue
        s += x
    return s

def f(xs):
    return stop(xs), find(xs, 1), skip(xs)
---
# An endless generator with a consumer that ends; zip ends it, too.
# call: f [[1, 2, 3]]
# types: ["[Int]"]
# expect: [10, [[0, 1], [1, 2], [2, 3]]]
def count():
    n = 0
    while True:
        yield n
        n += 1

def f(xs):
    s = 0
    for n in count():
        if n == 5:
            break
        s += n
    return s, [(a, b) for a, b in zip(count(), xs)]
---
# error: type: the generator never ends
def count():
    n = 0
    while True:
        yield n
        n += 1

def f():
    s = 0
    g = count()
    for i in range(3):
        s += next(g)
    return s
---
# The entry returns a list of what it yields, or maps.
# call: f [3]
# types: ["Int"]
# expect: [0, 1, 4]
# type: [Int64]
# call: g [3]
# types: ["Int"]
# expect: [1, 2, 3]
# call: h [3]
# types: ["Int"]
# expect: [[0, 1], [1, 2]]
def f(n):
    for i in range(n):
        yield i * i

def g(n):
    return map(lambda i: i + 1, range(n))

def h(n):
    return zip(range(n - 1), range(1, n))
---
# error: type: the generator escapes: a list cannot hold it
def f():
    gs = [(x for x in range(3))]
    return 1
---
# call: f [true]
# types: ["Bool"]
# error: type: the generator escapes
def f(c):
    if c:
        g = (x for x in range(3))
    else:
        g = (x for x in range(4))
    return sum(g)
---
# error: runtime: StopIteration
def f():
    it = iter([1])
    next(it)
    return next(it)
---
# error: type: TypeError: a range is no iterator
def f():
    return next(range(3))
---
# error: type: unsupported: a yield inside of an expression
def f():
    return (lambda: (yield 1))()
---
# N35, N40: signatures with streams; map that shadows the built-in.
# call: f [[1, 2, 3]]
# types: ["[Int]"]
# expect: [[3, 5, 7], 15]
@signature('(a -> b) -> Stream a -> Stream b')
def map(f, xs):
    for x in xs:
        yield f(x)

def f(xs):
    return list(map(lambda x: x + 1, map(lambda x: 2 * x, xs))), sum(map(lambda x: x + 1, map(lambda x: 2 * x, xs)))
---
# N41, N42: patterns by type: vectors are given by nobody.
# call: f [[1, 2, 3]]
# types: ["[Int]"]
# expect: 6
def total(xs):
    s = 0
    for x in xs:
        if isinstance(x, Vector):
            s += x.nothing
        else:
            s += x
    return s

def f(xs):
    return total(xs)
---
# `next` computes a value when its turn comes, where it can by number.
# call: f [[1, 0]]
# types: ["[Int]"]
# expect: [12, 2, -1]
# call: f [[0, 1]]
# types: ["[Int]"]
# expect: [-1, -1, -1]
def first(values):
    try:
        return next(values)
    except ZeroDivisionError:
        return -1

def f(xs):
    squares = (12 // x for x in xs)
    halves = map(lambda x: 2 // x, xs)
    a, b = first(squares), first(halves)
    try:
        c = next(halves)
    except ZeroDivisionError:
        c = -1
    return a, b, c if b > 0 else -1
---
# What `zip` does not take from an iterator stays there: it asks them in their order.
# call: f [[1], [4, 5, 6], [7, 8]]
# types: ["[Int]", "[Int]", "[Int]"]
# expect: [[[1, 4, 7]], [], [5, 6], [8]]
# call: f [[1, 2, 3], [4], [7]]
# types: ["[Int]", "[Int]", "[Int]"]
# expect: [[[1, 4, 7]], [3], [], []]
# call: f [[1, 2], [4, 5, 6], []]
# types: ["[Int]", "[Int]", "[Int]"]
# expect: [[], [2], [5, 6], []]
def f(xs, ys, zs):
    a = iter(xs)
    b = (y for y in ys)
    c = iter(zs)
    triples = list(zip(a, b, c))
    return triples, list(a), list(b), list(c)
---
# Lists among the iterators, and a loop that ends early.
# call: f [[1, 2, 3], [4, 5, 6], 2]
# types: ["[Int]", "[Int]", "Int"]
# expect: [[[1, 4, 4], [2, 5, 5]], [3], [6], 1]
def f(xs, ys, n):
    a = iter(xs)
    b = iter(ys)
    found = []
    left = 0
    for x, y, z in zip(a, ys, b):
        found.append((x, y, z))
        if len(found) == n:
            left = len(xs) - n
            break
    return found, list(a), list(b), left
---
# What `map` calls sees variables as they are then, and takes values from where others take them, too.
# call: f [[1, 2, 3, 4]]
# types: ["[Int]"]
# expect: [1, 20, [30, 40], 2, 2, 6, [8], -1]
def f(xs):
    k = 1
    scaled = map(lambda x: x * k, xs)
    a = next(scaled)
    k = 10
    b = next(scaled)
    rest = list(scaled)
    it = iter(xs)
    doubled = map(lambda x: x * 2, it)
    return a, b, rest, next(doubled), next(it), next(doubled, -1), list(doubled), next(doubled, -1)
---
# call: f [[0, 5]]
# types: ["[Int]"]
# expect: [-1, 2, -2]
def f(xs):
    it = map(lambda x: 10 // x, iter(xs))
    found = []
    for i in range(3):
        try:
            found.append(next(it))
        except ZeroDivisionError:
            found.append(-1)
        except StopIteration:
            found.append(-2)
    return found
---
# A generator whose values were all taken has no next one.
# call: f [[1, 2]]
# types: ["[Int]"]
# expect: [3, -1, -2]
# call: g [[1, 2]]
# types: ["[Int]"]
# error: runtime: g, line 13: StopIteration
def f(xs):
    it = (x for x in xs)
    total = sum(it)
    try:
        last = next(it)
    except StopIteration:
        last = -2
    return total, next(it, -1), last

def g(xs):
    it = map(lambda x: x + 1, xs)
    total = sum(it)
    return total, next(it)
