(* A function inside of a definition: its strings are those of the whole definition. *)
(* call: f {"x": [1, -1], "w": {"batch": [], "output": [2], "input": [2], "data": [[1, 2], [3, 4]]}} *)
(* wrt: ["x"] *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [-3, -7]} *)
(* grads: {"x": {"batch": [], "output": [2], "input": [], "data": [22, 32]}} *)
let%op f x = let layer y = "w" * y in layer (layer x)
---
(* call: f {"x": [2, 3], "w": [1, 2]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [4, 10]} *)
let%op f x = let scaled = fun y -> "w" *. y in scaled x + w *. 2
---
(* A function sees the names at its place. *)
(* call: f {"x": [1]} *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [17]} *)
let%op f x = let y = 1 in let g z = z + y in let y = 5 in g x + y *. 3
---
(* call: f {"x": [3], "y": [1]} *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [2]} *)
let%op f = fun x -> fun y -> let minus = fun a -> fun b -> a - b in minus x y
---
(* O36: where the configuration is a parameter, the strings are of each call. *)
(* call: net {"x": [1], "w_a": {"batch": [], "output": [1], "input": [1], "data": [[2]]}, "w_b": {"batch": [], "output": [1], "input": [1], "data": [[3]]}} *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [6]} *)
let%op net x =
  let layer = fun ~config x -> "w" * x in
  layer ~config:{label=["a"]} (layer ~config:{label=["b"]} x)
---
(* call: mlp {"x": [1], "w": {"batch": [], "output": [1], "input": [1], "data": [[4]]}} *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [4]} *)
let%op mlp = fun ~config x -> relu ("w" * x)
---
(* call: f {"x": [1]} *)
(* error: type: `g` takes 2 arguments, found 1 *)
let%op f x = let g a b = a + b in g x
---
(* call: f {"x": [1]} *)
(* error: type: `g` is a function, no tensor *)
let%op f x = let g a = a in g + x
---
(* call: f {"x": [1]} *)
(* error: type: unknown function `g` *)
let%op f x = let g a = g a in g x
---
(* call: f {"x": [1]} *)
(* error: type: a function is found, expected a tensor *)
(* at: fun *)
let%op f x = x + (fun y -> y)
---
(* In code *)
(* call: f {"x": [1, 2], "w": [3, 4]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [3, 8]}, "d": {"batch": [], "output": [2], "input": [], "data": [9, 32]}} *)
let%cd f x = let%op model y = "w" *. y in "c" =: model x; "d" =: model c
---
(* call: f {"x": [1, 2]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [2, 8]}} *)
let%cd f x = let square y = y *. y in let s = square x in "c" =: s; c =+ s
---
(* call: f {"x": [1, 2]} *)
(* error: type: `s.grad`: `s` is non-differentiable, it has no gradient *)
let%cd f x = let s = x *. x in "c" =: s.grad
---
(* An earlier code with arguments; the answer has what stands for its parameters. *)
(* call: step {"x": [3, 1], "y": 4, "w": {"batch": [], "output": [1], "input": [2], "data": [[1, 2]]}, "b": 0} *)
(* expect: {"w": {"batch": [], "output": [1], "input": [2], "data": [[0.4, 1.8]]}, "b": {"batch": [], "output": [1], "input": [], "data": [-0.4]}} *)
let%cd descend p rate = p =- rate * p.grad
let%cd step x y =
  let%op loss = ("w" * x + "b" - y) **. 2.0 in
  loss.zero_grads; loss.backprop;
  descend w 0.1;
  descend b (0.1 + 0.1)
---
(* call: f {"a": [1], "b": [2]} *)
(* expect: {"a": {"batch": [], "output": [1], "input": [], "data": [21]}, "b": {"batch": [], "output": [1], "input": [], "data": [6]}} *)
let%cd f a b =
  let%cd scale p s = p =* s in
  scale b 3; (scale a b; a =+ 1); scale a 3
---
(* O31: what a code declares is known in the whole definition, and is one tensor however often the code runs. *)
(* call: f {"a": [1]} *)
(* expect: {"c": {"batch": [], "output": [1], "input": [], "data": [2]}, "a": {"batch": [], "output": [1], "input": [], "data": [4]}, "d": {"batch": [], "output": [1], "input": [], "data": [8]}} *)
let%cd f a = let%cd step = "c" =: a; a =+ c in step; step; "d" =: c *. a
---
(* call: f {"a": [1]} *)
(* expect: {"a": {"batch": [], "output": [1], "input": [], "data": [3]}} *)
let%cd f a = let%cd more () = a =+ 1 in more (); more ()
---
(* call: f {"a": [1]} *)
(* error: type: `g` takes 1 argument, found 0 *)
let%cd g a = a =+ 1
let%cd f a = g
---
(* call: f {"a": [1]} *)
(* error: type: `g` is a `%op` tensor, no code *)
let%op g a = a + 1
let%cd f a = g a
---
(* call: f {"a": [1]} *)
(* error: type: `f` is recursive *)
let%cd f a = a =+ 1; f a
---
(* call: f {"a": [1, 2]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [2, 4]}} *)
let%cd f a = "c" =:+ identity a; c =+ id a
