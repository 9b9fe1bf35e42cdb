(* O17: product and permutation *)
(* call: f {"a": [[1, 2], [3, 4]], "b": [[1, 10], [100, 1000]]} *)
(* expect: {"batch": [], "output": [2, 2], "input": [], "data": [[201, 2010], [403, 4030]]} *)
let%op f a b = a +* "ij; jk => ik" b
---
(* row variables, batch and input rows *)
(* call: f {"a": {"batch": [2], "output": [2], "input": [], "data": [[1, 2], [3, 4]]}} *)
(* expect: {"batch": [2], "output": [], "input": [2], "data": [[1, 2], [3, 4]]} *)
let%op f a = a ++ "...|i => ...|i->"
---
(* call: f {"a": {"batch": [2], "output": [2], "input": [], "data": [[1, 2], [3, 4]]}} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [4, 6]} *)
let%op f a = a ++ "...|..o.. => ..o.."
---
(* a diagonal and a fixed index *)
(* call: f {"a": [[1, 2], [3, 4]]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [1, 4]} *)
let%op f a = a ++ "ii=>i"
---
(* call: f {"a": [[1, 2], [3, 4]]} *)
(* wrt: ["a"] *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [3, 4]} *)
(* grads: {"a": {"batch": [], "output": [2, 2], "input": [], "data": [[0, 0], [1, 1]]}} *)
let%op f a = a ++ "1i=>i"
---
(* words *)
(* call: f {"a": [[1, 2], [3, 4]]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [3, 7]} *)
let%op f a = a ++ "row, col => row"
---
(* an affine axis: convolution *)
(* call: f {"a": [1, 2, 3, 4, 5], "k": [1, 10]} *)
(* wrt: ["a", "k"] *)
(* expect: {"batch": [], "output": [4], "input": [], "data": [21, 32, 43, 54]} *)
(* grads: {"a": {"batch": [], "output": [5], "input": [], "data": [1, 11, 11, 11, 10]}, "k": {"batch": [], "output": [2], "input": [], "data": [10, 14]}} *)
let%op f a k = a +* "o+k; k => o" k
---
(* call: f {"a": [1, 2, 3, 4, 5], "k": [1, 10]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [21, 43]} *)
let%op f a k = a +* "2*o<+k; k => o" k
---
(* the other way round *)
(* call: f {"a": [1, 2], "k": [1, 10]} *)
(* expect: {"c": {"batch": [], "output": [4], "input": [], "data": [1, 10, 2, 20]}} *)
let%cd f a k = "c" =:+ a * k ~logic:"o; k => 2*o+k"
---
(* the largest sum *)
(* call: f {"a": [[1, 5], [7, 2]], "b": [3, 1]} *)
(* wrt: ["a"] *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [6, 10]} *)
(* grads: {"a": {"batch": [], "output": [2, 2], "input": [], "data": [[0, 1], [1, 0]]}} *)
let%op f a b = a @^+ "ij; j => i" b
---
(* call: f {"a": [[1, 2], [3, 4]]} *)
(* expect: {"c": {"batch": [], "output": [2], "input": [], "data": [2, 4]}, "d": {"batch": [], "output": [2], "input": [], "data": [3, 8]}, "e": {"batch": [], "output": [2], "input": [], "data": [-3, -7]}, "g": {"batch": [], "output": [2], "input": [], "data": [0.5, 0.083333333]}} *)
let%cd f a = "c" =:@^ a ~logic:"ij=>i"; "d" =:* a ~logic:"ij=>j"; "e" =:- a ~logic:"ij=>i"; "g" =:/ a ~logic:"ij=>i"
---
(* call: f {"a": [[1, 2], [3, 4]]} *)
(* error: type: the label `k` on the right of `=>` is on no left side *)
let%op f a = a ++ "ij=>k"
---
(* call: f {"a": [[1, 2], [3, 4]], "b": [1, 2, 3]} *)
(* error: type: the label `j` has two sizes: 2 and 3 *)
let%op f a b = a +* "ij;j=>i" b
---
(* call: f {"a": [[1, 2], [3, 4]]} *)
(* error: type: the specification has 1 output axis for `a`, which has 2: it is `2 2` *)
let%op f a = a ++ "i=>i"
---
(* call: f {"a": [[1, 2], [3, 4]]} *)
(* error: type: the index 5 is outside of an axis of size 2 *)
let%op f a = a ++ "5i=>i"
---
(* error: parse: einsum specification: expected a label *)
let%op f a = a ++ "i+ => i"
---
(* error: parse: einsum specification: expected `=>`, found the end *)
let%op f a = a ++ "ij"
---
(* error: type: `+*` has 2 operands, the specification 1 *)
let%op f a b = a +* "ij=>i" b
---
(* call: f {"a": [1, 2], "k": [1, 2, 3]} *)
(* error: type: `o+k`: 3 points do not fit into an axis of size 2 *)
let%op f a k = a +* "o+k; k => o" k
---
(* sums and sizes of 0 *)
(* call: f {"a": {"shape": [2, 0], "data": []}} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [0, 0]} *)
let%op f a = a ++ "ij=>i"
---
(* without commas every digit is a fixed index *)
(* call: f {"a": {"batch": [], "output": [2, 3, 4], "input": [], "data": [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]], [[13, 14, 15, 16], [17, 18, 19, 20], [21, 22, 23, 24]]]}} *)
(* expect: {"batch": [], "output": [4], "input": [], "data": [17, 18, 19, 20]} *)
let%op f a = a ++ "11i => i"
