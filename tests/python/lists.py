# Indices and slices.
# call: [[1, 2, 3, 4, 5]]
# types: ["[Int]"]
# expect: [1, 5, [2, 3], [1, 2], [4, 5], [1, 3, 5], [5, 4, 3, 2, 1], [], 5]
def f(xs):
    return xs[0], xs[-1], xs[1:3], xs[:2], xs[-2:], xs[::2], xs[::-1], xs[3:1], len(xs)
---
# call: [[1, 2], 2]
# types: ["[Int]", "Int"]
# error: runtime: f, line 2: IndexError: list index out of range: index 2 of 2
# at: xs[i]
# call: [[1, 2], -3]
# types: ["[Int]", "Int"]
# error: runtime: IndexError
# call: [[1, 2], -2]
# types: ["[Int]", "Int"]
# expect: 1
def f(xs, i):
    return xs[i]
---
# Lists that are made here may be changed.
# call: sieve [20]
# types: ["Int"]
# expect: [2, 3, 5, 7, 11, 13, 17, 19]
# call: fibonacci [10]
# types: ["Int"]
# expect: [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
# call: sort [[5, 2, 8, 1]]
# types: ["[Float]"]
# expect: [1.0, 2.0, 5.0, 8.0]
# call: alias [3]
# types: ["Int"]
# expect: [[1, 9], [1, 9], 2]
# call: grid [2, 3]
# types: ["Int", "Int"]
# expect: [[0, 1, 2], [1, 2, 3]]
def sieve(n):
    is_prime = [True] * n
    for i in range(2, n):
        if is_prime[i]:
            for j in range(i * i, n, i):
                is_prime[j] = False
    return [i for i in range(2, n) if is_prime[i]]

def fibonacci(n):
    out = [0, 1]
    for i in range(n - 2):
        out.append(out[-1] + out[-2])
    return out

def sort(xs):
    ys = [x for x in xs]
    n = len(ys)
    for i in range(n):
        for j in range(n - 1 - i):
            if ys[j] > ys[j + 1]:
                ys[j], ys[j + 1] = ys[j + 1], ys[j]
    return ys

def alias(n):
    xs = [1, n]
    ys = xs
    ys[1] = 9
    return xs, ys, len(xs)

def grid(n, m):
    g = [[0] * m for i in range(n)]
    for i in range(n):
        for j in range(m):
            g[i][j] = i + j
    return g
---
# N31: comprehensions and the iterables that are built in.
# call: [[1, 2, 3], [10, 20, 30]]
# types: ["[Int]", "[Int]"]
# expect: [[1, 4, 9], [2], [11, 22, 33], [[0, 10], [1, 20], [2, 30]], [2, 4, 6], [1, 3], 6, 60, 3, 6, [1, 3, 6], [100, 101, 103, 106], [[1, 10], [1, 20]]]
def f(xs, ys):
    a = [x * x for x in xs]
    b = [x for x in xs if x % 2 == 0]
    c = [x + y for x, y in zip(xs, ys)]
    d = [(i, y) for i, y in enumerate(ys)]
    e = list(map(lambda x: 2 * x, xs))
    g = list(filter(lambda x: x != 2, xs))
    h = reduce(lambda p, q: p + q, xs)
    k = sum(ys)
    s = scan(lambda p, q: p + q, xs)
    t = scan(lambda p, q: p + q, xs, 100)
    return a, b, c, d, e, g, h, k, max(xs), reduce(lambda p, q: p * q, xs, 1), s, t, [(x, y) for x in xs if x < 2 for y in ys if y < 30]
---
# call: [[]]
# types: ["[Int]"]
# expect: [0, [], false, true]
# call: [[3]]
# types: ["[Int]"]
# expect: [3, [3], true, true]
def f(xs):
    return sum(xs), xs + [], any(x == 3 for x in xs), all(x == 3 for x in xs)
---
# call: [[]]
# types: ["[Int]"]
# error: runtime: ValueError: `max` of nothing
def f(xs):
    return max(xs)
---
# Of integers only the total has to fit.
# call: [[9223372036854775807, 1, -1]]
# types: ["[Int]"]
# expect: 9223372036854775807
# call: [[9223372036854775807, 1]]
# types: ["[Int]"]
# error: runtime: OverflowError: integer overflow
def f(xs):
    return sum(xs)
---
# N8
# call: [[1, 2]]
# types: ["[Int]"]
# error: type: an argument is changed
# at: xs.append(3)
def f(xs):
    xs.append(3)
    return xs
---
# call: [[1, 2]]
# types: ["[Int]"]
# error: type: an argument is changed
# line: 2
def f(xs):
    xs[0] = 3
    return xs
---
# call: [[1, 2]]
# types: ["[Int]"]
# error: type: the elements of the list are Int64 and String
def f(xs):
    return [1, "a"]
---
# Tuples, unpacking.
# call: [1, 2]
# types: ["Int", "Int"]
# expect: [2, 1, [1, 2, 3], 3, 2, [2, 3]]
def f(a, b):
    x, y = b, a
    t = (a, b) + (3,)
    p, (q, r) = 1, (2, 3)
    return x, y, t, len(t), t[1], t[1:]
---
# call: []
# error: type: IndexError: index 2 of a tuple of 2
def f():
    return (1, 2)[2]
---
# Lists that grow are of the wider type.
# expect: [[1.0, 2.5], [0.5, 1.0]]
def f():
    xs = []
    xs.append(1)
    xs.append(2.5)
    ys = []
    for i in range(2):
        ys.append((i + 1) / 2)
    return xs, ys
---
# Appended to and read in one loop.
# call: f [2000]
# types: ["Int"]
# expect: [1999, 2000]
def f(n):
    xs = [0, 1]
    for i in range(2, n):
        xs.append(xs[i - 1] + 1)
    return xs[-1], len(xs)
---
# call: f [5]
# types: ["Int"]
# expect: [[0, 1, 1, 2, 3, 5, 8], 20, 8, 7]
def f(n):
    xs = [0, 1]
    while len(xs) < n + 2:
        xs.append(xs[-1] + xs[-2])
    return xs, sum(xs), max(xs), len(xs)
---
# A stack.
# call: f [1000]
# types: ["Int"]
# expect: [1000, [0, 7]]
def f(n):
    stack = [0]
    count = 0
    while len(stack) > 0 and count < n:
        x = stack.pop()
        count += 1
        if x < n:
            stack.append(x)
            stack.append(x + 1)
            if count % 2 == 0:
                y = stack.pop()
    while len(stack) > 1:
        z = stack.pop()
    stack.append(7)
    return count, stack
---
# In nested loops, of pairs, with elements set.
# call: f [4]
# types: ["Int"]
# expect: [[0.0, 1.0, 3.0, 6.0, 10.0, 15.0, 21.0, 28.0, 36.0, 45.0, 55.0, 66.0, -1.0], 4, 12]
def f(n):
    xs = [0.0]
    ps = [(0, 0)]
    for i in range(1, n):
        for j in range(n):
            if len(xs) % 2 == 0 or xs[-1] > 0.0 or i == 1:
                xs.append(xs[-1] + len(xs))
            ps.append((ps[-1][0], ps[-1][1] + 1))
        ps[0] = (i, ps[0][1])
    xs[len(xs) - 1] = -1.0
    return xs, ps[0][0] + 1, ps[-1][1]
---
# An error is caught in between.
# call: f [6]
# types: ["Int"]
# expect: [1.0, 1.5, 2.5, -1.0, -1.0, -1.0]
def f(n):
    xs = [1.0]
    for i in range(n - 1):
        try:
            if i > 1:
                raise ValueError("late")
            xs.append(xs[i] + 0.5 * (i + 1))
        except ValueError:
            xs.append(-1)
    return xs
---
# Elements that are swapped are changed where they lie.
# call: f [300]
# types: ["Int"]
# expect: [0, 9, 1006, true]
def f(n):
    xs = [i * 7919 % 1009 for i in range(n)]
    for i in range(n):
        for j in range(n - 1 - i):
            if xs[j] > xs[j + 1]:
                xs[j], xs[j + 1] = xs[j + 1], xs[j]
    return xs[0], xs[3], xs[-1], all(xs[i] <= xs[i + 1] for i in range(n - 1))
---
# A list that is an element twice is not changed in one place.
# call: times [3]
# types: ["Int"]
# error: type: this cannot be changed: a list may be an element of two lists
# at: m[0][0]
# call: copied [3]
# types: ["Int"]
# error: type: this cannot be changed
# call: made [3]
# types: ["Int"]
# error: type: this cannot be changed
# call: assigned [3]
# types: ["Int"]
# error: type: this cannot be changed
# call: later [3]
# types: ["Int"]
# error: type: this cannot be changed
def times(n):
    m = [[0] * 2] * n
    m[0][0] = 5
    return m

def copied(n):
    m = [[0], [n]]
    k = m[:]
    k[0][0] = 5
    return m

def rows(n):
    row = [0] * n
    return [row for i in range(n)]

def made(n):
    m = rows(n)
    m[0][0] = 5
    return m

def assigned(n):
    m = [[0], [n]]
    m[0] = m[1]
    m[0][0] = 5
    return m

def later(n):
    m = [[0], [1], [2]]
    for i in range(2):
        m[0][0] = n
        m[i] = m[i + 1]
    return m
---
# Lists in a list may change places.
# call: [3]
# types: ["Int"]
# expect: [[1, 3], [7, 2]]
def f(n):
    m = [[n - 1, 2], [1, n]]
    m[0], m[1] = m[1], m[0]
    m[1][0] = 7
    return m
---
# A list that a loop over it changes: its elements are read when their turn comes.
# call: f [0]
# types: ["Int"]
# expect: [[1, 2, 3, 4, 5], 12, [2, 4], [0, 2, 8], [5, 1]]
def f(n):
    a = [1]
    for x in a:
        if len(a) < 5:
            a.append(x + 1)
    b = [1, 2, 3]
    s = n
    for x in b:
        b[2] = 9
        s += x
    c = [1, 2, 3, 4]
    for x in c:
        c.remove(x)
    d = [5, 1, 2]
    for i, x in enumerate(d):
        d[i] = i * x + i * i
    e = [5, 1]
    for x in e[:]:
        if x > 7:
            e.append(x)
    return a, s, c, d, e
---
# call: [[1, 2, 3, 4]]
# types: ["[Int]"]
# error: type: unsupported: `zip` of an iterator with itself
def f(xs):
    it = iter(xs)
    return list(zip(it, it))
---
# Tuples: slices with steps, comparisons of several lengths.
# call: f [1, 2]
# types: ["Int", "Int"]
# expect: [[4, 3, 2, 1], [1, 3], [4, 2], [3, 2], [], [4, 3]]
# call: g [1, 2]
# types: ["Int", "Int"]
# expect: [true, false, true, false, false, true, true, false]
# call: g [2, 1]
# types: ["Int", "Int"]
# expect: [true, false, true, false, true, false, true, false]
def f(a, b):
    t = (a, b, 3, 4)
    return t[::-1], t[::2], t[::-2], t[2:0:-1], t[1:3:-1], t[9:-3:-1]

def g(a, b):
    return (a,) < (a, b), (a, b) <= (a,), (a, b) > (a,), (a,) == (a, b), (a, b) > (1,) + (b, 3), (a,) < (b, 0), () < (a,), () >= (a,)
