# Lists that nothing was put into when they are read first: what they hold is known later.
# call: primes [10]
# types: ["Int"]
# expect: [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
# call: runs [[1, 2, 2, 3, 3, 3]]
# types: ["[Int]"]
# expect: [[1, 1], [2, 2], [3, 3]]
# call: runs [[]]
# types: ["[Int]"]
# expect: []
# call: stack ["12+3*"]
# types: ["String"]
# expect: 9
# call: stack ["1+"]
# types: ["String"]
# error: runtime: stack, line 24: IndexError: pop from empty list
def primes(n):
    found = []
    k = 2
    while len(found) < n:
        if all(k % p != 0 for p in found):
            found.append(k)
        k += 1
    return found

def runs(xs):
    out = []
    for x in xs:
        if len(out) > 0 and out[-1][0] == x:
            out[-1] = (x, out[-1][1] + 1)
        else:
            out.append((x, 1))
    return out

def stack(text):
    held = []
    for c in text:
        if c in "+*":
            b = held.pop()
            a = held.pop()
            held.append(a + b if c == "+" else a * b)
        else:
            held.append(int(c))
    return held[0]
---
# call: [2]
# types: ["Int"]
# expect: [0, [], 5, "none", 0, [3, 4]]
def f(n):
    xs = []
    total = 0
    for x in xs:
        total += x + n
    pairs = list(zip(xs, [1, 2]))
    first = xs[0] if xs else 5
    try:
        a, b = xs
        text = "some"
    except ValueError:
        text = "none"
    try:
        total += next(iter(xs)) + xs.pop(0)
    except StopIteration:
        total = 0
    rows = []
    for i in range(3):
        row = []
        for j in range(2):
            row.append(rows[-1][j] + 1 if rows else i + j + n)
        rows.append(row)
    return total, pairs, first, text, xs.count(n), [rows[1][0], rows[2][0]]
---
# call: []
# error: runtime: f, line 3: IndexError: list index out of range: index 0 of 0
# at: xs[0]
def f():
    xs = []
    return xs[0]
