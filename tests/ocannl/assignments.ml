(* O1, O3, O5, O8, O18: a code gives all assigned tensors *)
(* call: add {"a": [1, 2], "b": [10, 20]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [11, 22]}} *)
(* type: {c: 2} *)
let%cd add a b = "c" =:+ a + b
---
(* O2: assignments in order *)
(* call: f {"a": [1, 2]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [3, 6]}, "d": {"batch": [], "output": [2], "input": [], "data": [9, 36]}} *)
let%cd f a = "c" =: a; c =+ a; c =+ a; "d" =: c * c
---
(* O5 *)
(* call: f {"a": [1, 2, -3], "b": [4, 5, 2]} *)
(* expect: {"p": {"batch": [], "output": [3], "input": [], "data": [5, 7, -1]}, "m": {"batch": [], "output": [3], "input": [], "data": [-3, -3, -5]}, "t": {"batch": [], "output": [3], "input": [], "data": [4, 10, -6]}, "d": {"batch": [], "output": [3], "input": [], "data": [0.25, 0.4, -1.5]}, "e": {"batch": [], "output": [3], "input": [], "data": [1, 32, 9]}, "g": {"batch": [], "output": [3], "input": [], "data": [4, 5, 0]}} *)
let%cd f a b = "p" =: a + b; "m" =: a - b; "t" =: a * b; "d" =: a / b; "e" =: a ** b; "g" =: a -?/ b
---
(* O6, O7, O4: functions of one and two operands *)
(* call: f {"a": [1, -2]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [1, 0]}, "d": {"batch": [], "output": [2], "input": [], "data": [2, -4]}, "e": {"batch": [], "output": [2], "input": [], "data": [3, 0]}, "h": {"batch": [], "output": [2], "input": [], "data": [1, 4]}} *)
let%cd f a = "c" =: !/a; "d" =:+ add a a; "e" =: relu_gate a 3; "h" =: mul a a
---
(* O9: every accumulation from its neutral element *)
(* call: f {"a": [2, 4]} *)
(* expect: {"b": {"batch": [], "output": [2], "input": [], "data": [2, 4]}, "c": {"batch": [], "output": [2], "input": [], "data": [-2, -4]}, "d": {"batch": [], "output": [2], "input": [], "data": [2, 4]}, "e": {"batch": [], "output": [2], "input": [], "data": [0.5, 0.25]}, "g": {"batch": [], "output": [2], "input": [], "data": [1, 1]}, "h": {"batch": [], "output": [2], "input": [], "data": [2, 4]}, "i": {"batch": [], "output": [2], "input": [], "data": [2, 4]}, "j": {"batch": [], "output": [2], "input": [], "data": [2, 4]}} *)
let%cd f a = "b" =:+ a; "c" =:- a; "d" =:* a; "e" =:/ a; "g" =:** a; "h" =:?/ a; "i" =:@^ a; "j" =:@- a
---
(* O10: into the old value *)
(* call: f {"a": [2, 4], "c": [3, -1]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [5, 3]}} *)
let%cd f a c = c =+ a
---
(* call: f {"a": [2, 4], "c": [3, -1]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [1, -5]}} *)
let%cd f a c = c =- a
---
(* call: f {"a": [2, 4], "c": [3, -1]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [6, -4]}} *)
let%cd f a c = c =* a
---
(* call: f {"a": [2, 4], "c": [3, -1]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [1.5, -0.25]}} *)
let%cd f a c = c =/ a
---
(* call: f {"a": [2, 4], "c": [3, -1]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [9, 1]}} *)
let%cd f a c = c =** a
---
(* call: f {"a": [2, 4], "c": [3, -1]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [2, 0]}} *)
let%cd f a c = c =?/ a
---
(* call: f {"a": [2, 4], "c": [3, -1]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [3, 4]}} *)
let%cd f a c = c =@^ a
---
(* call: f {"a": [2, 4], "c": [3, -1]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [2, -1]}} *)
let%cd f a c = c =@- a
---
(* O11, O14: both give the same *)
(* call: f {"p": [1, 2], "lr": 0.5, "q": [4, 8]} *)
(* expect: {"p": {"batch": [], "output": [2], "input": [], "data": [3, 6]}} *)
let%cd f p lr q = p =+ lr * q ~logic:"."
---
(* call: f {"p": [1, 2], "lr": 0.5, "q": [4, 8]} *)
(* expect: {"p": {"batch": [], "output": [2], "input": [], "data": [3, 6]}} *)
let%cd f p lr q = p =+ lr *. q
---
(* O15: the document's product *)
(* call: f {"a": {"batch": [], "output": [2], "input": [3], "data": [[1, 2, 3], [4, 5, 6]]}, "b": {"batch": [], "output": [3], "input": [], "data": [1, 0, -1]}} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [-2, -2]}} *)
let%cd f a b = "c" =:+ a * b ~logic:"@"
---
(* call: f {"a": {"batch": [], "output": [2], "input": [3], "data": [[1, 2, 3], [4, 5, 6]]}, "b": {"batch": [], "output": [3], "input": [2], "data": [[1, 0], [0, 1], [1, 1]]}} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [2], "data": [[4, 5], [10, 11]]}} *)
(* type: {c: 2 -> 2} *)
let%cd f a b = "c" =:+ a * b ~logic:"@"
---
(* O16 *)
(* call: f {"a": {"batch": [], "output": [2], "input": [3], "data": [[1, 2, 3], [4, 5, 6]]}} *)
(* expect: {"c": {"batch": [], "output": [3], "input": [2], "data": [[1, 4], [2, 5], [3, 6]]}} *)
let%cd f a = "c" =: a ~logic:"T"
---
(* O17 *)
(* call: f {"a": [[1, 2, 3], [4, 5, 6]]} *)
(* expect: {"c": {"batch": [], "output": [3, 2], "input": [], "data": [[1, 4], [2, 5], [3, 6]]}, "d": {"batch": [], "output": [3], "input": [], "data": [5, 7, 9]}, "e": {"batch": [], "output": [], "input": [], "data": 21}} *)
let%cd f a = "c" =: a ~logic:"ij=>ji"; "d" =:+ a ~logic:"ij=>j"; "e" =:+ a ~logic:"ij=>"
---
(* O20: tensors as operands *)
(* call: f {"a": {"batch": [], "output": [2], "input": [2], "data": [[1, 2], [3, 4]]}, "x": [1, 1]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [13, 17]}} *)
let%cd f a x = "c" =: (a * x) + 10
---
(* a declared tensor grows to hold all that is assigned *)
(* call: f {"a": [1, 2, 3]} *)
(* expect: {"c": {"batch": [], "output": [3], "input": [], "data": [2, 3, 4]}} *)
let%cd f a = "c" =: 1; c =+ a
---
(* cells that nothing reaches: the neutral element *)
(* call: f {"a": [1, 2]} *)
(* expect: {"c": {"batch": [], "output": [2, 2], "input": [], "data": [[1, 0], [0, 2]]}, "d": {"batch": [], "output": [2, 2], "input": [], "data": [[1, 1], [1, 2]]}} *)
let%cd f a = "c" =:+ a ~logic:"i=>ii"; "d" =:* a ~logic:"i=>1i"
---
(* The left side is filled before the operation reads it; tensors of their own are computed before that. *)
(* call: f {"c": [1, 2], "a": [5, 6]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [5, 6]}} *)
(* call: g {"c": [1, 2], "a": [5, 6]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [6, 8]}} *)
(* call: h {"c": [1, 2], "a": [5, 6]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [5, 12]}} *)
(* call: transposed {"c": [[1, 2], [3, 4]]} *)
(* expect: {"c": {"batch": [], "output": [2, 2], "input": [], "data": [[1, 3], [2, 4]]}} *)
let%cd f c a = c =:+ c + a
let%cd g c a = c =:+ (c + a)
let%cd h c a = c =:* (c *. a) ** c
let%cd transposed c = c =: c ~logic:"ij=>ji"
---
(* and without a colon their old value *)
(* call: f {"a": [1, 2], "c": [[5, 6], [7, 8]]} *)
(* expect: {"c": {"batch": [], "output": [2, 2], "input": [], "data": [[6, 6], [7, 10]]}} *)
let%cd f a c = c =+ a ~logic:"i=>ii"
---
(* O37: sizes that do not agree *)
(* call: f {"a": [1, 2], "b": [1, 2, 3]} *)
(* error: type: `a` is `2`, `b` is `3`: their output axes differ: 2 and 3 *)
(* at: + *)
let%cd f a b = "c" =: a + b
---
(* call: f {"a": [1, 2], "c": [1, 2, 3]} *)
(* error: type: `=+`: `c` is `3`, what is assigned to it is `2`: their output axes differ: 2 and 3 *)
(* at: c *)
let%cd f a c = c =+ a
---
(* call: f {"a": {"batch": [], "output": [2], "input": [3], "data": [[1, 2, 3], [4, 5, 6]]}, "b": [1, 2]} *)
(* error: type: `*`: the input axes of `a` are `3`, the output axes of `b` are `2`: expected 3, found 2 *)
let%cd f a b = "c" =:+ a * b ~logic:"@"
---
(* error: type: `~logic:"@"` with `/` *)
let%cd f a b = "c" =:+ a / b ~logic:"@"
---
(* error: type: needs one operand *)
let%cd f a b = "c" =:+ a * b ~logic:"T"
---
(* error: parse: `ij` is no logic *)
let%cd f a b = "c" =:+ a * b ~logic:"ij"
---
(* O12, O13: values of the OCaml program *)
(* error: parse: `~projections` is not supported *)
let%cd f a b = "c" =:+ a * b ~projections
---
(* error: type: unknown name `t1` *)
let%cd f a b = "c" =:+ t1 * b
---
(* O31: a name in the whole definition *)
(* call: f {"a": [1]} *)
(* error: type: `c` is declared twice *)
let%cd f a = "c" =: a; "c" =+ a
---
(* call: f {"a": [1]} *)
(* error: type: `a` is declared, but it is a parameter already *)
let%cd f a = "a" =: 3
---
(* O33 *)
(* error: type: `%cd` declares on the left side only *)
let%cd f a = "c" =: a + "d"
---
(* error: type: unknown name `c` *)
let%cd f a = "d" =: c; "c" =: a
---
(* error: parse: expected an assignment operator, found `:=` *)
let%cd f a = c := a
---
(* call: f {"a": [[1, 2], [3, 4]]} *)
(* error: type: `=:` only sets, but an axis of size 2 is reduced *)
let%cd f a = "c" =: a ~logic:"ij=>i"
---
(* A logic of two operands is that of the operation, in parentheses or not *)
(* call: f {"a": {"batch": [], "output": [2], "input": [2], "data": [[1, 2], [3, 4]]}, "b": [1, -1]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [-1, -1]}, "d": {"batch": [], "output": [2], "input": [2], "data": [[1, -2], [3, -4]]}} *)
let%cd f a b = "c" =:+ (a * b) ~logic:"@"; "d" =:+ (a * b) ~logic:"i->o; i => i->o"
