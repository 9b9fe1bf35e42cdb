# Text of integers and truths; the example of the overloaded method.
# call: [-9223372036854775808, true, "a"]
# types: ["Int", "Bool", "String"]
# expect: ["-9223372036854775808", "True", "a", "x=-9223372036854775808, True!", "7", "0", "None"]
# call: [120, false, "é"]
# types: ["Int", "Bool", "String"]
# expect: ["120", "False", "é", "x=120, False!", "7", "0", "None"]
def f(n, b, s):
    return str(n), str(b), str(s), f"x={n}, {b}!", str(7), str(n - n), str(None)
---
# call: [3]
# types: ["Int"]
# expect: [4, "3x"]
class Neat(object):
    layout = Struct([('value', 'Int')])

    @signature('Int -> Int')
    def __add__(self, other):
        return self.value + other

    @signature('String -> String')
    def __add__(self, other):
        return str(self.value) + other

def f(n):
    c = Neat(n)
    return c + 1, c + "x"
---
# call: [2.5]
# types: ["Float"]
# error: type: unsupported: `str` of Float64
# at: str(x)
def f(x):
    return str(x)
---
# call: [2.5]
# types: ["Float"]
# error: type: unsupported: a format in an f-string
def f(x):
    return f"{x:.2f}"
---
# Parts of strings are counted by characters.
# call: ["héllo"]
# types: ["String"]
# expect: ["él", "olléh", "llo", "héll", "hlo", "", "o", "héllohéllo", ""]
# call: [""]
# types: ["String"]
# expect: ["", "", "", "", "", "", "", "", ""]
def f(s):
    return s[1:3], s[::-1], s[2:], s[:-1], s[::2], s[4:1], s[:2:-2] if s else s, s * 2, -1 * s
---
# Methods.
# call: ["  a,b,,c ", ","]
# types: ["String", "String"]
# expect: [["  a", "b", "", "c "], 3, "a,b,,c", "  a--b----c ", 3, "a,b,,c ", "  a,b,,c", true, false]
# call: ["é", "x"]
# types: ["String", "String"]
# expect: [["é"], 0, "é", "é", -1, "é", "é", false, false]
def f(s, t):
    return s.split(t), s.count(t), s.strip(), s.replace(t, t + "-" if t == "x" else "--"), s.find(t), s.lstrip(), s.rstrip(), s.startswith("  "), s.endswith("b")
---
# call: [["a", "b", "c"]]
# types: ["[String]"]
# expect: ["a, b, c", "0-1-2", ""]
# call: [[]]
# types: ["[String]"]
# expect: ["", "0-1-2", ""]
def f(xs):
    return ", ".join(xs), "-".join(str(i) for i in range(3)), "-".join([])
---
# call: ["a", ""]
# types: ["String", "String"]
# error: runtime: ValueError: empty separator
def f(s, t):
    return s.split(t)
---
# call: ["a"]
# types: ["String"]
# error: type: unsupported: the method `upper` of strings
def f(s):
    return s.upper()
---
# Integers in text.
# call: [" -12 "]
# types: ["String"]
# expect: [-12, -1]
# call: ["+7"]
# types: ["String"]
# expect: [7, -1]
# call: ["-9223372036854775808"]
# types: ["String"]
# expect: [-9223372036854775808, -1]
# call: ["9223372036854775808"]
# types: ["String"]
# error: runtime: OverflowError
# call: ["1x"]
# types: ["String"]
# error: runtime: f, line 6: ValueError: invalid literal for int()
# call: ["-"]
# types: ["String"]
# error: runtime: ValueError
def f(s):
    try:
        n = int("4.5")
    except ValueError:
        n = -1
    return int(s), n
---
# Words between white space; characters that are stripped.
# call: f ["  a bé\tc \n", "xx-a-x"]
# types: ["String", "String"]
# expect: [["a", "bé", "c"], "-a-", "-a-x", "xx-a", 3]
# call: f ["", "x"]
# types: ["String", "String"]
# expect: [[], "", "", "", 0]
# call: f ["one", ""]
# types: ["String", "String"]
# expect: [["one"], "", "", "", 1]
def f(s, t):
    return s.split(), t.strip("x"), t.lstrip("x"), t.rstrip("x-"), len(s.split())
---
# call: f ["a", "b"]
# types: ["String", "String"]
# error: type: unsupported: `strip` of other characters than those of an ASCII literal
def f(s, t):
    return s.strip(t)
