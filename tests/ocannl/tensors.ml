(* O1, O22, O35: the tensor product, a parameter of the caller's *)
(* call: miss {"x": [3, 1], "y": 4, "w": {"batch": [], "output": [1], "input": [2], "data": [[1, 2]]}} *)
(* wrt: ["w", "x", "y"] *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [1]} *)
(* type: 1 *)
(* grads: {"w": {"batch": [], "output": [1], "input": [2], "data": [[6, 2]]}, "x": {"batch": [], "output": [2], "input": [], "data": [2, 4]}, "y": {"batch": [], "output": [1], "input": [], "data": [-2]}} *)
(* call: miss {"x": [3, 1], "y": 4, "w": [1, 2]} *)
(* wrt: ["w"] *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [1]} *)
(* grads: {"w": {"batch": [], "output": [], "input": [2], "data": [6, 2]}} *)
let%op miss x y = ("w" * x - y) **. 2.0
---
(* O22: pointwise *)
(* call: f {"a": [1, 2], "b": [3, 5]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [3, 10]} *)
let%op f a b = a *. b
---
(* call: f {"a": [1, 2], "b": [4, 5]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [0.25, 0.4]} *)
let%op f a b = a /. b
---
(* call: f {"a": [1, 2]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [1, 8]} *)
let%op f a = a **. 3
---
(* O6, O7 *)
(* call: f {"a": [1, -2], "b": [3, 4]} *)
(* wrt: ["a", "b"] *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [4, 0]} *)
(* grads: {"a": {"batch": [], "output": [2], "input": [], "data": [1, 0]}, "b": {"batch": [], "output": [2], "input": [], "data": [1, 0]}} *)
let%op f a b = !/a + (a -?/ b)
---
(* the gradient of relu at 0 is 0 *)
(* call: f {"a": [0, 1]} *)
(* wrt: ["a"] *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [0, 1]} *)
(* grads: {"a": {"batch": [], "output": [2], "input": [], "data": [0, 1]}} *)
let%op f a = relu a
---
(* gradients are summed over broadcast axes *)
(* call: f {"a": [1, 2, 3], "b": 5} *)
(* wrt: ["b"] *)
(* expect: {"batch": [], "output": [3], "input": [], "data": [5, 10, 15]} *)
(* grads: {"b": {"batch": [], "output": [1], "input": [], "data": [6]}} *)
let%op f a b = a *. b
---
(* a dense layer *)
(* call: layer {"x": [1, 2], "w": {"batch": [], "output": [3], "input": [2], "data": [[1, 1], [1, -1], [0, 2]]}, "b": [0.5, 0.5, -5]} *)
(* wrt: ["w", "b"] *)
(* expect: {"batch": [], "output": [3], "input": [], "data": [3.5, 0, 0]} *)
(* grads: {"w": {"batch": [], "output": [3], "input": [2], "data": [[1, 2], [0, 0], [0, 0]]}, "b": {"batch": [], "output": [3], "input": [], "data": [1, 0, 0]}} *)
let%op layer x = relu ("w" * x + "b")
---
(* softmax *)
(* call: softmax {"x": [0, 0]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [0.5, 0.5]} *)
let%op softmax x = let e = exp x in e /. (e ++ "i=>")
---
(* functions *)
(* call: f {"a": [4]} *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [1.7135063]} *)
let%op f a = exp (log a) - sqrt a + tanh a - sin a + cos a *. neg a + recip a - 4.0 - 0.5 + 1.0 - 1.4072
---
(* earlier definitions apply *)
(* call: g {"x": [1, 2], "w": {"batch": [], "output": [2], "input": [2], "data": [[1, 0], [0, 1]]}} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [4, 8]} *)
let%op double x = x + x
let%op g x = double ("w" * (double x))
---
(* O36: a tensor for each configuration *)
(* call: net {"x": [1], "w_a": {"batch": [], "output": [1], "input": [1], "data": [[2]]}, "w_b": {"batch": [], "output": [1], "input": [1], "data": [[3]]}} *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [6]} *)
let%op layer ~config x = "w" * x
let%op net x = layer ~config:{label=["a"]} (layer ~config:{label=["b"]} x)
---
(* O36: the entry's own configuration *)
(* call: mlp {"x": [1], "config": {"label": ["mlp"]}, "w": 4} *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [5]} *)
(* call: mlp {"x": [1], "w": 4} *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [5]} *)
let%op mlp ~config x = "w" + x
---
(* an initial value *)
(* call: f {"x": [1, 2]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [3, 6]} *)
(* call: f {"x": [1, 2], "s": 2} *)
(* wrt: ["s"] *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [2, 4]} *)
(* grads: {"s": {"batch": [], "output": [1], "input": [], "data": [3]}} *)
let%op f x = "s" 3.0 *. x
---
(* O30: the string and the name mean the same; O31 *)
(* call: f {"w": [1, 2]} *)
(* wrt: ["w"] *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [3, 8]} *)
(* grads: {"w": {"batch": [], "output": [2], "input": [], "data": [4, 6]}} *)
let%op f () = w *. "w" + "w" *. 2
---
(* annotations *)
(* call: f {"w": [[1, 2, 3], [4, 5, 6]], "x": [1, 1, 1]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [6, 15]} *)
let%op f (w : 3 -> 2) (x : ?) = w * x
---
(* call: f {"w": [[1, 2, 3], [4, 5, 6]]} *)
(* error: type: argument `w`: expected `2 -> 2`, found `3 -> 2` *)
let%op f (w : 2 -> 2) = w
---
(* kinds of axes come from the product *)
(* call: f {"w": [[1, 2, 3], [4, 5, 6]], "x": [1, 1, 1]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [6, 15]} *)
let%op f w x = w * x
---
(* O29 *)
(* call: f {"x": [1, 2]} *)
(* error: type: their output axes differ: 2 and 3 *)
let%cd f x = let%op _ = x + [1; 2; 3] in "c" =: x
---
(* call: f {"x": [1, 2, 3]} *)
(* expect: {"c": {"batch": [], "output": [3], "input": [], "data": [1, 2, 3]}} *)
let%cd f x = let%op _ = x + [1; 2; 3] in "c" =: x
---
(* call: f {"x": [1, 2]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [1, 2]}} *)
let%cd f x = let%cd _ = "d" =: x * 2 in "c" =: x
---
(* expect: null *)
let%op _ = [1; 2] + 1
---
(* O19, O39: a step of training *)
(* call: step {"x": [3, 1], "y": 4, "w": {"batch": [], "output": [1], "input": [2], "data": [[1, 2]]}} *)
(* expect: {"w": {"batch": [], "output": [1], "input": [2], "data": [[0.4, 1.8]]}, "after": {"batch": [], "output": [1], "input": [], "data": [1]}} *)
let%cd step x y =
  let%op loss = ("w" * x - y) **. 2.0 in
  loss.forward; loss.zero_grads; loss.backprop;
  w =- 0.1 * w.grad ~logic:".";
  "after" =: loss
---
(* gradients add up until they are set to zero *)
(* call: f {"x": [3]} *)
(* expect: {"a": {"batch": [], "output": [1], "input": [], "data": [12]}, "b": {"batch": [], "output": [1], "input": [], "data": [0]}, "c": {"batch": [], "output": [1], "input": [], "data": [1]}} *)
let%cd f x =
  let%op y = x *. x in
  y.backprop; y.backprop; "a" =: x.grad; "c" =: y.grad;
  y.zero_grads; "b" =: x.grad
---
(* a gradient that is given *)
(* call: f {"p": [1, 2], "lr": 0.5, "p.grad": [4, 8]} *)
(* expect: {"p": {"batch": [], "output": [2], "input": [], "data": [3, 6]}} *)
let%cd f p lr = p =+ lr * p.grad ~logic:"."
---
(* call: f {"p": [1], "p.grad": [1, 2]} *)
(* error: type: argument `p.grad`: expected the sizes of `p`, found the sizes [2] *)
(* call: f {"p": [1, 2, 3], "p.grad": [1, 2]} *)
(* error: type: argument `p.grad`: expected the sizes of `p`, found the sizes [2] *)
(* call: f {"p": [1, 2], "p.grad": 5} *)
(* error: type: argument `p.grad`: expected the sizes of `p`, found *)
(* call: f {"p": {"batch": [], "output": [1], "input": [2], "data": [[1, 2]]}, "p.grad": [1, 2]} *)
(* expect: {"c": {"batch": [], "output": [1], "input": [2], "data": [[1, 2]]}} *)
let%cd f p = "c" =: p.grad
---
(* call: f {"p": [1, 2]} *)
(* error: type: `p` has no gradient here *)
let%cd f p = "c" =: p.grad
---
(* call: f {"p": [1, 2]} *)
(* error: type: `c` is declared in `%cd`, so it is non-differentiable *)
let%cd f p = "c" =: p; "d" =: c.grad
---
(* call: f {"p": [1, 2]} *)
(* wrt: ["q"] *)
(* error: type: no gradient of `q` *)
let%op f p = p
---
(* call: f {"p": [1, 2]} *)
(* error: type: no value is given for `w` *)
let%op f p = p + "w"
---
(* call: f {"p": [1, 2], "e": 2} *)
(* error: type: `**.` needs a constant exponent *)
let%op f p e = p **. e
---
(* call: f {"p": [1, 2]} *)
(* error: type: the input axes of the number `2` are none, the output axes of `p` are `2` *)
let%op f p = 2 * p
---
(* error: type: `f` is recursive *)
let%op f p = f p
---
(* call: f {"p": [1]} *)
(* error: parse: `/` is the operation of a `%cd` assignment only *)
(* at: / *)
let%op f p = p / 2
---
(* call: f {"p": [1]} *)
(* error: type: unknown function `gelu` *)
let%op f p = gelu p
---
(* call: f {"p": [1]} *)
(* error: type: `relu` takes 1 argument, found 2 *)
let%op f p = relu p p
---
(* call: f {"p": [1]} *)
(* error: type: `p` is declared, but it is a parameter *)
let%op f p = "p" + 1
---
(* cells of another type *)
(* call: f {"x": [0.1, 0.2]} *)
(* types: {"x": "f64"} *)
(* tolerance: 1e-15 *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [0.30000000000000004, 0.6000000000000001]} *)
let%op f x = 3 *. x
---
(* a type as the language writes it *)
(* call: f {"w": [[1, 2, 3], [4, 5, 6]]} *)
(* types: {"w": "3 -> 2"} *)
(* expect: {"batch": [], "output": [3], "input": [2], "data": [[1, 4], [2, 5], [3, 6]]} *)
let%op f w = w ++ "i->j => j->i"
---
(* call: f {"w": [[1, 2, 3], [4, 5, 6]]} *)
(* types: {"w": "2 -> 2"} *)
(* error: type: argument `w`: expected `2 -> 2` *)
let%op f w = w
---
(* forward computes again, what was computed before stays *)
(* call: f {"x": [2]} *)
(* expect: {"a": {"batch": [], "output": [1], "input": [], "data": [4]}, "x": {"batch": [], "output": [1], "input": [], "data": [3]}, "b": {"batch": [], "output": [1], "input": [], "data": [4]}, "c": {"batch": [], "output": [1], "input": [], "data": [9]}} *)
let%cd f x =
  let%op y = x *. x in
  "a" =: y; x =+ 1; "b" =: y; y.forward; "c" =: y
---
(* code bound to a name *)
(* call: f {"x": [2]} *)
(* expect: {"b": {"batch": [], "output": [1], "input": [], "data": [4]}, "c": {"batch": [], "output": [1], "input": [], "data": [5]}} *)
let%cd f x = let%cd first = "b" =: x * 2 in "c" =: b + 1
---
(* assigning to a gradient *)
(* call: f {"x": [2]} *)
(* expect: {"x.grad": {"batch": [], "output": [1], "input": [], "data": [5]}} *)
let%cd f x = let%op y = x *. x in y.backprop; x.grad =+ 1
---
(* a product over several axes, with batches *)
(* call: f {"a": {"batch": [2], "output": [], "input": [2], "data": [[1, 2], [3, 4]]}, "b": {"batch": [], "output": [2], "input": [2], "data": [[1, 0], [0, 1]]}} *)
(* expect: {"batch": [2], "output": [], "input": [2], "data": [[1, 2], [3, 4]]} *)
(* type: 2 | 2 -> *)
let%op f a b = a * b
---
(* error: type: `layer` has no parameter `~config` *)
let%op layer x = x
let%op f () = layer ~config 1
---
(* call: f {"x": [1]} *)
(* error: type: `g` is used before its definition *)
let%op f x = g x
let%op g x = x
---
(* numbers: an axis of 1 goes together with none *)
(* call: f {"x": 3, "w": 2, "b": 1} *)
(* wrt: ["w", "x", "b"] *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [49]} *)
(* grads: {"w": {"batch": [], "output": [1], "input": [], "data": [42]}, "x": {"batch": [], "output": [1], "input": [], "data": [28]}, "b": {"batch": [], "output": [1], "input": [], "data": [14]}} *)
let%op f x = ("w" * x + "b") **. 2
---
(* what has one cell stretches along the input axes *)
(* call: f {"w": {"batch": [], "output": [2], "input": [3], "data": [[1, 2, 3], [4, 5, 6]]}} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [12, 30]} *)
let%op f w = w * 2
---
(* an argument that is no tensor is what is said, not what follows from it *)
(* call: f {"w": {"batch": [], "output": [1], "input": [3], "data": [[1, 2]]}, "x": [1, 2]} *)
(* error: type: `w`: the sizes are [1, 3], the data's [1, 2] *)
(* call: f {"w": {"output": [1], "input": [2], "data": [1, 2], "labels": {"input": ["q", "p"]}}, "x": [1, 2]} *)
(* error: type: `w`: `labels` must be an object of lists *)
(* call: f {"w": [[1, 2], [3]], "x": [1, 2]} *)
(* error: type: `w`: the list is ragged: one part has 2 elements, another 1 *)
(* call: f {"w": {"output": [1], "input": [2], "data": [1, 2]}, "x": [1, 2]} *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [5]} *)
let%op f w x = w * x
---
(* call: f {"x": [1, 2]} *)
(* domain: [1, 1, 2] *)
(* error: type: `domain` is given, but ocannl has no compute domain *)
let%op f x = x + x
---
(* a `let` is an operand, too; it reaches to the right as far as it can *)
(* call: f {"x": [1, 2]} *)
(* wrt: ["x"] *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [5, 14]} *)
(* grads: {"x": {"batch": [], "output": [2], "input": [], "data": [7, 11]}} *)
let%op f x = x *. let y = x + 1 in y *. 2 + 1
---
(* call: f {"x": [3], "w": [2]} *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [9]} *)
let%op f x = x + let%op y = "w" *. x in y
---
(* call: f {"x": [1, 2]} *)
(* error: type: their output axes differ: 2 and 3 *)
let%op f x = let%op _ = x + [1; 2; 3] in x
---
(* call: f {"x": [1, 2]} *)
(* error: parse: `let%cd` is code, found inside of an expression *)
let%op f x = let%cd y = x =+ 1 in x
---
(* exponents that numbers give *)
(* call: f {"x": [4, 9]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [6, 8]} *)
let%op half = 0.5
let%op f x = x **. (1.0 /. 2.0) + x **. half + x **. 0.0 **. 2.0 + 1
---
(* `-. 4` is no number *)
(* error: parse: expected a float behind `-.`, found `4` *)
(* at: 4 *)
let%op f () = -.4
---
(* error: parse: expected a float behind `-.`, found `4` *)
let%op f () = [1.5; -.4]
---
(* a number says nothing of the kinds of axes *)
(* call: f {"w": [[1, 2, 3], [4, 5, 6]], "x": [1, 1, 1]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [9, 18]} *)
let%op f w x = (w + 1) * x
---
(* a wildcard of the text constrains shapes, code too *)
(* call: f {"x": [1]} *)
(* error: type: their output axes differ: 2 and 3 *)
let%cd _ = "d" =: [1; 2] + [1; 2; 3]
let%op f x = x
---
(* what stands behind a definition with `in` uses it *)
(* call: {"hey": {"batch": [], "output": [1], "input": [1], "data": [[3]]}} *)
(* wrt: ["hey"] *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [14], "labels": {"output": ["p"]}} *)
(* grads: {"hey": {"batch": [], "output": [1], "input": [1], "data": [[4]], "labels": {"output": ["p"], "input": ["q"]}}} *)
let%op y = ("hey" * 'q' 2.0) + 'p' 1.0 in
y + y
---
(* error: type: unknown name `z` *)
let%op y = [1; 2] in z
