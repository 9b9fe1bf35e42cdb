# N52: a caught exception is a jump.
# call: safe [7, 2]
# types: ["Int", "Int"]
# expect: 3
# call: safe [7, 0]
# types: ["Int", "Int"]
# expect: -1
# call: get [[1, 2], 5]
# types: ["[Int]", "Int"]
# expect: [0, "index"]
# call: get [[1, 2], 1]
# types: ["[Int]", "Int"]
# expect: [5, "fine"]
# call: get [[1, 0], 1]
# types: ["[Int]", "Int"]
# expect: [0, "zero"]
def safe(a, b):
    try:
        return a // b
    except ZeroDivisionError:
        return -1

def get(xs, i):
    what = "fine"
    y = 0
    try:
        y = 10 // xs[i]
    except IndexError:
        what = "index"
    except ZeroDivisionError:
        what = "zero"
    return y, what
---
# Through calls and loops; else and finally.
# call: f [[1, 2, -3, 4]]
# types: ["[Int]"]
# expect: [3, "negative", 2]
# call: f [[1, 2]]
# types: ["[Int]"]
# expect: [3, "done", 1]
def check(x):
    if x < 0:
        raise ValueError("negative")
    return x

def f(xs):
    s = 0
    n = 0
    try:
        for x in xs:
            s += check(x)
    except ValueError:
        what = "negative"
        n += 1
    else:
        what = "done"
    finally:
        n += 1
    return s, what, n
---
# What is not caught ends the run.
# call: f [0]
# types: ["Int"]
# error: runtime: f, line 3: KeyError: none
# call: f [1]
# types: ["Int"]
# expect: 2
# call: f [2]
# types: ["Int"]
# expect: 3
def f(x):
    try:
        if x == 0: raise KeyError("none")
        if x == 1: raise ValueError("one")
    except ValueError:
        return 2
    return 3
---
# What follows a caught exception in its expression is not evaluated.
# call: f [0, 5]
# types: ["Int", "Int"]
# expect: [-1, 0]
# call: f [2, 5]
# types: ["Int", "Int"]
# error: runtime: IndexError
def f(a, i):
    log = []
    def note(x):
        log.append(x)
        return x
    try:
        y = note(10 // a) + [1, 2][i]
    except ZeroDivisionError:
        y = -1
    return y, len(log)
---
# Nested handlers, a bare except, tuples, raise in a handler.
# call: f [0]
# types: ["Int"]
# expect: "outer"
# call: f [1]
# types: ["Int"]
# expect: "inner"
# call: f [2]
# types: ["Int"]
# expect: "any"
# call: f [3]
# types: ["Int"]
# expect: "none"
def g(x):
    try:
        if x == 0:
            raise KeyError("k")
        if x == 1:
            raise ValueError("v")
        if x == 2:
            raise RuntimeError("r")
    except (ValueError, TypeError):
        return "inner"
    return "none"

def f(x):
    try:
        return g(x)
    except KeyError:
        return "outer"
    except:
        return "any"
---
# call: f [5]
# types: ["Int"]
# expect: [2, 8]
# note: an overflow that is caught
def f(x):
    n = 0
    try:
        y = x * 9223372036854775807
    except OverflowError:
        n = 2
    z = x + 3
    return n, z
---
# error: type: expected the name of an exception, found a name
def f():
    try:
        return 1
    except foo:
        return 2
---
# error: runtime: f, line 2: ValueError: always
def f():
    raise ValueError("always")
---
# A handler does not catch what its consumer raises.
# error: runtime: ValueError: mine
def each():
    try:
        yield 1
    except ValueError:
        yield 2

def f():
    s = 0
    for x in each():
        raise ValueError("mine")
    return s
---
# What was caught is raised again, with its own text and place, and has a text.
# call: f [0]
# types: ["Int"]
# error: runtime: f, line 4: ValueError: zero
# at: ValueError("zero")
# call: f [1]
# types: ["Int"]
# error: runtime: f, line 5: ZeroDivisionError: integer division or modulo by zero
# call: f [2]
# types: ["Int"]
# error: runtime: f, line 5: IndexError: list index out of range
# call: f [3]
# types: ["Int"]
# expect: 10
def f(x):
    try:
        if x == 0:
            raise ValueError("zero")
        return 10 // [0, 0, 1][x - 1 if x < 3 else 2] if x != 2 else [1][x]
    except (ValueError, ZeroDivisionError):
        raise
    except IndexError as e:
        raise e
---
# call: f [0]
# types: ["Int"]
# expect: ["zero!", 1]
# call: f [1]
# types: ["Int"]
# expect: ["'one'!", 1]
# call: f [2]
# types: ["Int"]
# expect: ["list index out of range!", 1]
# call: f [-1]
# types: ["Int"]
# expect: ["2", 0]
def f(x):
    n = 0
    try:
        if x == 0:
            raise ValueError("zero")
        if x == 1:
            raise KeyError("one")
        return str([1, 2][x]), n
    except Exception as e:
        n += 1
        return f"{e}!", n
---
# In a loop: the outer handler catches what the inner one raises again.
# call: f [5]
# types: ["Int"]
# expect: [2, 1, 2]
def f(n):
    a = 0
    b = 0
    c = 0
    for i in range(n):
        try:
            try:
                if i % 2 == 0 and i > 0:
                    raise ValueError("even")
                if i == 3:
                    raise KeyError("three")
            except Exception:
                a += 1 if i > 2 else 0
                raise
        except ValueError:
            c += 1
        except KeyError:
            b += 1
    return a, b, c
---
# Numbers in texts.
# call: f [-3, 0.5]
# types: ["Int", "Float"]
# error: runtime: f, line 3: ValueError: -3 is not in 0 to 10 (x)
# call: f [3, 0.5]
# types: ["Int", "Float"]
# error: runtime: f, line 4: AssertionError: n = 3
# call: f [5, 1.5]
# types: ["Int", "Float"]
# error: runtime: f, line 5: KeyError: too much: 1.5
def f(n, x):
    if n < 0:
        raise ValueError(f"{n} is not in 0 to {10} {{x}}")
    assert n > 3, f"n = {n}"
    raise KeyError("too much: " + str(x))
---
# call: ["a"]
# types: ["String"]
# error: type: unsupported: String in the text of an exception
def f(s):
    raise ValueError(f"no {s}")
---
# call: [1]
# types: ["Int"]
# error: type: RuntimeError: no exception is being handled
def f(n):
    raise
---
# Exceptions of the program.
# call: f [1]
# types: ["Int"]
# expect: "low 1"
# call: f [2]
# types: ["Int"]
# expect: "bad"
# call: f [3]
# types: ["Int"]
# expect: "value"
# call: f [4]
# types: ["Int"]
# error: runtime: check, line 21: TooHigh: 4 is too high
# call: f [0]
# types: ["Int"]
# expect: "fine"
class Bad(Exception):
    """What is wrong."""

class TooLow(Bad):
    pass

class Odd(ValueError):
    ...

class TooHigh(Exception):
    pass

def check(n):
    if n == 1:
        raise TooLow("low 1")
    if n == 2:
        raise Bad
    if n == 3:
        raise Odd()
    if n == 4:
        raise TooHigh(f"{n} is too high")
    return "fine"

def f(n):
    try:
        return check(n)
    except TooLow as e:
        return str(e)
    except Bad:
        return "bad"
    except ValueError:
        return "value"
---
# error: type: unsupported: def in the exception `Bad`
# line: 2
class Bad(Exception):
    def __init__(self):
        pass

def f():
    return 1
---
# Braces in a text are braces.
# call: f [0]
# types: ["Int"]
# expect: "no {n} in {0}"
# call: f [1]
# types: ["Int"]
# error: runtime: f, line 6: KeyError: {key} or {1}
# call: f [2]
# types: ["Int"]
# expect: "fine"
def f(n):
    try:
        if n == 0:
            raise ValueError("no {n} in {0}")
        if n == 1:
            raise KeyError("{key} or {1}")
    except ValueError as e:
        return str(e)
    return "fine"
