# Copies of an argument's rows are lists of the function, whatever variables hold the rows.
# call: closure [[[0, 1, 0], [0, 1, 1], [0, 0, 1]]]
# types: ["[[Int]]"]
# expect: [[0, 1, 1], [0, 1, 1], [0, 0, 1]]
# call: turned [[[1, 2, 3], [4, 5, 6]]]
# types: ["[[Int]]"]
# expect: [[1, 4], [2, 5], [3, 6]]
# call: running [3]
# types: ["Int"]
# expect: [[1, 1, 3], [2, 2, 2], [3, 3, 3]]
# call: made [2]
# types: ["Int"]
# expect: [[2, 1], [1, 1]]
# call: longest [5]
# types: ["Int"]
# expect: [0, 1, 100]
# call: chunks [[1, 2, 3, 4, 5], 2]
# types: ["[Int]", "Int"]
# expect: [[1, 2], [3, 4]]
# call: eliminated [[[2.0, 1.0], [1.0, 3.0]], [3.0, 5.0]]
# types: ["[[Float]]", "[Float]"]
# expect: [[2.0, 1.0, 3.0], [0.0, 2.5, 3.5]]
def closure(m):
    n = len(m)
    r = [[x for x in row] for row in m]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if r[i][k] and r[k][j]:
                    r[i][j] = 1
    return r

def turned(m):
    out = [[0] * len(m) for _ in range(len(m[0]))]
    for i, row in enumerate(m):
        for j, x in enumerate(row):
            out[j][i] = x
    return out

def running(n):
    r = [[i + 1] * n for i in range(n)]
    for i in range(n):
        row = r[i]
        total = row[0] + row[1]
        r[i][0] = total // 2
    last = r[-1]
    r[0][n - 1] = len(last)
    return r

def pick(k):
    ys = [k]
    zs = [y for y in ys]
    if k > 1:
        return ys
    return zs

def made(n):
    p = pick(n)
    p.append(1)
    q = pick(1)
    if n > 5:
        q = [7]
    q.append(1)
    return [p, q]

def longest(n):
    best = []
    for i in range(n):
        cand = [j for j in range(i % 3)]
        if len(cand) > len(best):
            best = cand
    best.append(100)
    return best

def chunks(xs, k):
    out = []
    row = []
    for x in xs:
        row.append(x)
        if len(row) == k:
            out.append(row)
            row = []
    return out

def eliminated(a, b):
    m = [row + [b[i]] for i, row in enumerate(a)]
    for i in range(len(m)):
        for r in range(i + 1, len(m)):
            f = m[r][i] / m[i][i]
            for c in range(i, len(m) + 1):
                m[r][c] -= f * m[i][c]
    return m
---
# A list or object that may be one that others hold is not changed.
# call: chosen [true]
# types: ["Bool"]
# error: type: this cannot be changed: which list or object it is depends on the run
# at: p.append(3)
# call: chosen_object [true]
# types: ["Bool"]
# error: type: this cannot be changed: which list or object it is depends on the run
# call: argument [true, [1]]
# types: ["Bool", "[Int]"]
# error: type: this cannot be changed: it is an argument
# call: field [true]
# types: ["Bool"]
# error: type: this cannot be changed: which list or object it is depends on the run
# call: inner [true]
# types: ["Bool"]
# error: type: this cannot be changed: which list or object it is depends on the run
# call: carried [3]
# types: ["Int"]
# error: type: this cannot be changed: which list or object it is depends on the run
# at: p.append(i)
# call: original [true]
# types: ["Bool"]
# error: type: this cannot be changed: which list or object it is depends on the run
# at: a.append(5)
# call: later [true]
# types: ["Bool"]
# expect: [2, [1, 5]]
# call: repeated [[1, 2]]
# types: ["[Int]"]
# error: type: this cannot be changed: it is an element of a list
# at: row.append(x)
class P(object):
    layout = Struct([('x', 'Int'), ('items', '[Int]')])

def chosen(c):
    a, b = [1], [2]
    p = a if c else b
    p.append(3)
    return a, b, p

def chosen_object(c):
    a, b = P(1, []), P(2, [])
    p = a if c else b
    p.x = 9
    return a.x, b.x

def argument(c, xs):
    ys = xs if c else [0]
    ys.append(3)
    return ys

def field(c):
    a, b = [1], [2]
    if c:
        p = P(1, a)
    else:
        p = P(1, b)
    p.items.append(3)
    return a, b

class Outer(object):
    layout = Struct([('p', 'P')])

def inner(c):
    a, b = P(1, []), P(2, [])
    o = Outer(a)
    if c:
        o.p = b
    o.p.x = 7
    return a.x, b.x

def carried(n):
    a, b = [0], [1]
    p = a
    for i in range(n):
        p.append(i)
        p = b
    return a, b

def original(c):
    a, b = [1], [2]
    p = a if c else b
    a.append(5)
    return p

def repeated(xs):
    out = []
    row = []
    for x in xs:
        row.append(x)
        out.append(row)
        if x > 1:
            row = []
    return out

def later(c):
    a, b = [1], [2]
    p = a if c else b
    n = len(p) + b[0] - 1
    a.append(5)
    return n, a
---
# Nor is one that came out of a list, whatever it is called, nor a list in a list while somebody holds it.
# call: branched [true]
# types: ["Bool"]
# error: type: this cannot be changed: it was taken out of a list
# call: found [1]
# types: ["Int"]
# error: type: this cannot be changed: it was taken out of a list
# call: object [3]
# types: ["Int"]
# error: type: this cannot be changed: it was taken out of a list
# call: tupled []
# error: type: this cannot be changed: a variable may hold this list, too
# call: kept []
# error: type: this cannot be changed: a variable may hold this list, too
# call: iterated []
# error: type: this cannot be changed: a variable may hold this list, too
# call: compared []
# error: type: this cannot be changed: a variable may hold this list, too
# call: together []
# error: type: this cannot be changed: a variable may hold this list, too
# call: rows []
# error: type: this cannot be changed: a variable may hold this list, too
# call: captured []
# error: type: this cannot be changed: a variable may hold this list, too
def branched(c):
    r = [[1, 2], [3, 4]]
    best = r[0]
    if c:
        best = r[1]
    best[0] = 9
    return r

def found(k):
    rows = [[0], [1]]
    def pick():
        for r in rows:
            if r[0] == k:
                return r
        return rows[0]
    p = pick()
    p.append(7)
    return rows

class P(object):
    layout = Struct([('x', 'Int')])

def object(n):
    ps = [P(i) for i in range(n)]
    best = ps[0]
    for p in ps:
        if p.x > best.x:
            best = p
    best.x = 100
    return ps

def tupled():
    r = [[1, 2], [3, 4]]
    t = (r[0], 1)
    r[0][0] = 5
    return t[0][0]

class Held(object):
    layout = Struct([('items', '[Int]')])

def kept():
    r = [[1, 2], [3, 4]]
    h = Held(r[0])
    r[0][0] = 5
    return h.items[0]

def iterated():
    r = [[1, 2], [3, 4]]
    it = iter(r[0])
    r[0][0] = 5
    return next(it)

def compared():
    r = [[1, 2], [3, 4]]
    best = r[0]
    for i in range(2):
        if r[i][0] > best[0]:
            best = r[i]
        r[i][1] = 7
    return best

def together():
    r = [[1, 2], [3, 4]]
    r[0][0], q = 5, r[0]
    return q

def rows():
    r = [[1, 2], [3, 4]]
    for row in r:
        for j, x in enumerate(row):
            r[0][1 - j] = x * 2
    return r

def captured():
    r = [[1, 2], [3, 4]]
    q = r[0]
    def g():
        return q[0]
    r[0][0] = 5
    return g()
---
# Nor is one of which a list has a copy that may be it.
# call: [2]
# types: ["Int"]
# error: type: this cannot be changed: it is an element of a list
# at: b.append(1)
def f(n):
    a, b = [1], [2]
    m = [[0]]
    m.append(a if n > 3 else b)
    b.append(1)
    return m
---
# A list that only grows in a loop is read where another name gets it.
# call: [3]
# types: ["Int"]
# expect: [[3, 1, 2, 1, 2], [3, 1, 2, 1, 2, 1, 2]]
def f(n):
    w = [[1, 2], [5, n]]
    a = w[1]
    b = [n]
    for i in range(n):
        a = b[:]
        b += w[0]
    return a, b
---
# call: [3]
# types: ["Int"]
# expect: [[3, 1, 2, 1, 2, 1, 2], [3, 1, 2, 1, 2, 1, 2]]
def f(n):
    w = [[1, 2], [5, n]]
    a = w[1]
    b = [n]
    for i in range(n):
        a = b
        b += w[0]
    return b, b
