(* O1: code is no tensor, a tensor is no code *)
(* call: f {"a": [1]} *)
(* error: parse: expected `let%cd` or `let%op`, found `=:` *)
(* at: =: *)
let%op f a = "c" =: a
---
(* call: f {"a": [1]} *)
(* error: parse: expected an assignment operator, found `+` *)
(* at: + *)
let%cd f a = a + 1
---
(* O2: assignments without a semicolon between them *)
(* call: f {"a": [1]} *)
(* error: parse: found `=:` *)
let%cd f a = "c" =: a "d" =: a
---
(* O3: the outermost operator is the operation, what is inside of it a tensor *)
(* call: f {"a": [1, 2], "b": [3, 4]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [4, 10]}} *)
let%cd f a b = "c" =: a + b *. a
---
(* call: f {} *)
(* error: parse: expected an assignment, found `3` *)
let%cd f () = 3 =: 4
---
(* O4: operations by name *)
(* call: f {"a": [1], "b": [2]} *)
(* error: type: unknown function `add3` *)
(* at: add3 *)
let%cd f a b = "c" =: add3 a b
---
(* O5, O6: operators that are none *)
(* call: f {"a": [1], "b": [2]} *)
(* error: parse: unknown operator `%` *)
(* at: % *)
let%cd f a b = "c" =: a % b
---
(* call: f {"a": [1]} *)
(* error: parse: unknown operator `!` *)
let%cd f a = "c" =: ! a
---
(* O7: the gate and its operand agree in their sizes *)
(* call: f {"a": [1, 2], "b": [1, 2, 3]} *)
(* error: type: `-?/`: `a` is `2`, `b` is `3`: their output axes differ: 2 and 3 *)
let%op f a b = a -?/ b
---
(* O8: assignments that are none *)
(* call: f {"a": [1]} *)
(* error: parse: expected an assignment operator, found `=:%` *)
let%cd f a = "c" =:% a
---
(* O14, O17: a logic is a string *)
(* call: f {"a": [1]} *)
(* error: parse: expected a string after `~logic:`, found `5` *)
let%cd f a = "c" =: a ~logic:5
---
(* call: f {"a": [1]} *)
(* error: parse: expected `:`, found the end of the text *)
let%cd f a = "c" =: a ~logic
---
(* O19: gradients are read and set in code, where there are some *)
(* call: f {"a": [1]} *)
(* error: type: `a.grad` is read in `%cd` code, not in `%op` *)
let%op f a = a.grad
---
(* call: f {"a": [1]} *)
(* error: type: `a` has no gradient here *)
let%cd f a = a.grad =: a
---
(* O20, O21: tensors of `%cd` have none *)
(* call: f {"a": [1]} *)
(* error: type: `c` is declared in `%cd`, so it is non-differentiable *)
(* at: c *)
let%cd f a = "c" =: a *. a; a =+ c.grad
---
(* O21: a literal has none; a parameter has one though nothing depends on its value *)
(* call: f {"w": [1, 2]} *)
(* wrt: ["w"] *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [3, 3]} *)
(* grads: {"w": {"batch": [], "output": [2], "input": [], "data": [0, 0]}} *)
let%op f () = "w" *. 0 + 3
---
(* O22: an operator of OCaml that is none here *)
(* call: f {"a": [1]} *)
(* error: parse: unknown operator `+.` *)
let%op f a = 2.0 +. a
---
(* O23: numbers *)
(* error: parse: `1e` is no number *)
let%op f () = 1e
---
(* O24: an input axis of an output axis *)
(* error: type: the literal is ragged: expected a number, found an output axis of 1 *)
(* at: [2] *)
let%op f () = (1, [2])
---
(* error: parse: expected `)`, found the end of the text *)
let%op f () = (1, 2
---
(* O26: batch axes *)
(* error: type: the literal is ragged: expected a number, found a batch axis of 1 *)
let%op f () = [| 1; [| 2 |] |]
---
(* O28: labels are one character *)
(* error: parse: a dimension label is one character in quotes, such as `'q'` *)
let%op f () = 'qq' 2.0
---
(* error: parse: a dimension label is one character in quotes *)
let%op f () = '' 2.0
---
(* Labels spread through assignments, *)
(* call: f {"a": {"batch": [], "output": [2], "input": [], "data": [1, 2], "labels": {"output": ["q"]}}} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [1, 2], "labels": {"output": ["q"]}}} *)
let%cd f a = "c" =: a
---
(* from either side, *)
(* call: f {"a": [1]} *)
(* expect: {"c": {"batch": [], "output": [1], "input": [], "data": [3], "labels": {"output": ["q"]}}} *)
let%cd f a = "c" =: 'q' 2.0 + a
---
(* and with the axes of an einsum. *)
(* call: f {"a": {"batch": [], "output": [2, 1], "input": [], "data": [[1], [2]], "labels": {"output": ["q", "r"]}}} *)
(* expect: {"c": {"batch": [], "output": [1], "input": [], "data": [3], "labels": {"output": ["r"]}}} *)
let%cd f a = "c" =:+ a ~logic:"ij=>j"
---
(* call: f {"a": {"batch": [], "output": [2], "input": [], "data": [1, 2], "labels": {"output": ["q"]}}, "b": {"batch": [], "output": [2], "input": [], "data": [1, 2], "labels": {"output": ["p"]}}} *)
(* error: type: their output axes differ in their labels: `p` and `q` *)
(* at: c *)
let%cd f a b = "c" =: a; c =+ b
---
(* Labelled axes that a product matches *)
(* call: f {"a": {"batch": [], "output": [1], "input": [2], "data": [[1, 2]], "labels": {"input": ["q"]}}, "b": {"batch": [], "output": [2], "input": [], "data": [1, 2], "labels": {"output": ["p"]}}} *)
(* error: type: they differ in their labels: `p` and `q` *)
let%cd f a b = "c" =:+ a * b ~logic:"@"
---
(* O30, O32: the parameter's name is the declaring string, its labels those of what it meets *)
(* call: f {"a": {"batch": [], "output": [2], "input": [], "data": [1, 2], "labels": {"output": ["q"]}}, "b": [1, 2]} *)
(* wrt: ["b"] *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [2, 4], "labels": {"output": ["q"]}} *)
(* grads: {"b": {"batch": [], "output": [2], "input": [], "data": [1, 1], "labels": {"output": ["q"]}}} *)
let%op f a = "b" + a
---
(* O34: a declared tensor takes the labels of the first that is assigned to it, whatever the parameters are called *)
(* call: f {"x": {"batch": [], "output": [2], "input": [], "data": [1, 2], "labels": {"output": ["q"]}}} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [2, 4], "labels": {"output": ["q"]}}, "d": {"batch": [], "output": [2], "input": [], "data": [4, 8], "labels": {"output": ["q"]}}} *)
let%cd f x = "c" =: x + x; "d" =: c + c
---
(* O29: a wildcard is no value *)
(* error: parse: expected an assignment, found `3` *)
let%cd _ = 3
---
(* O36: a configuration is a record with `label` *)
(* error: parse: a configuration has a field `label`, found none *)
(* at: {} *)
let%op layer ~config x = "w" * x
let%op net x = layer ~config:{} x
---
(* and other fields as the program likes *)
(* call: net {"x": [2], "w_a": {"batch": [], "output": [1], "input": [1], "data": [[3]]}} *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [6]} *)
let%op layer ~config x = "w" * x
let%op net x = layer ~config:{depth = 3; label = ["a"];} x
---
(* error: parse: expected `[`, found `3` *)
let%op layer ~config x = "w" * x
let%op net x = layer ~config:{label=3} x
---
(* O38: a loop for each axis of the specification *)
(* call: f {"a": [1, 2]} *)
(* error: type: the specification has 2 output axes for `a`, which has 1: it is `2` *)
let%op f a = a +* "ij;jk=>ik" a
