(* O23 *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [2.5]} *)
(* type: 1 *)
let%op f () = 2.5
---
(* O24 *)
(* expect: {"batch": [], "output": [], "input": [3], "data": [1, 2, 3]} *)
(* type: 3 -> *)
let%op f () = (1, 2, 3)
---
(* O25 *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [1, -2]} *)
let%op f () = [1; -2]
---
(* O26 *)
(* expect: {"batch": [2], "output": [], "input": [], "data": [1, 2]} *)
(* type: 2 | *)
let%op f () = [|1; 2|]
---
(* O27 *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [14, 32]} *)
(* type: 2 *)
let%op f () = [ (1, 2, 3); (4, 5, 6) ] * [1; 2; 3]
---
(* axes come in the order batch, output, input *)
(* expect: {"batch": [2], "output": [1], "input": [2], "data": [[[1, 2]], [[3, 4]]]} *)
(* type: 2 | 2 -> 1 *)
let%op f () = [| [(1, 2)]; [(3, 4)] |]
---
(* expect: {"batch": [], "output": [2], "input": [3], "data": [[1, 3, 5], [2, 4, 6]]} *)
let%op f () = ([1; 2], [3; 4], [5; 6])
---
(* O28: labels spread *)
(* call: y {"hey": {"batch": [], "output": [1], "input": [1], "data": [[3]]}} *)
(* wrt: ["hey"] *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [7], "labels": {"output": ["p"]}} *)
(* grads: {"hey": {"batch": [], "output": [1], "input": [1], "data": [[2]], "labels": {"output": ["p"], "input": ["q"]}}} *)
let%op y = ("hey" * 'q' 2.0) + 'p' 1.0
---
(* error: type: their output axes differ in their labels: `q` and `p` *)
let%op f () = 'q' 2.0 + 'p' 1.0
---
(* a label agrees with none *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [3], "labels": {"output": ["q"]}} *)
let%op f () = 'q' 2.0 + 1.0
---
(* call: f {"x": {"batch": [], "output": [2], "input": [], "data": [1, 2], "labels": {"output": ["a"]}}, "y": {"batch": [], "output": [2], "input": [], "data": [1, 2], "labels": {"output": ["b"]}}} *)
(* error: type: `a` and `b` *)
let%op f x y = x + y
---
(* error: type: the literal is ragged: expected 2 elements as in the first part, found 1 *)
(* at: [3] *)
let%op f () = [[1; 2]; [3]]
---
(* error: type: the literal mixes kinds of axes: expected an output axis of 2, found an input axis of 2 *)
let%op f () = [[1; 2]; (3, 4)]
---
(* error: type: the literal is ragged: expected a number, found an output axis of 1 *)
let%op f () = [1; [2]]
---
(* error: parse: at least one element *)
let%op f () = []
---
(* error: parse: the elements of a literal are numbers or literals *)
let%op f x = [x; 1]
---
(* error: parse: expected a number behind the label 'q' *)
let%op f x = 'q' x
---
(* error: type: too large *)
let%op f () = 1e39 + 1
---
(* embedded numbers *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [5]} *)
let%op f () = !. 2.0 + !.. 3
---
(* a long literal *)
(* call: f {"x": [1, 2]} *)
(* expect: {"batch": [], "output": [2], "input": [], "data": [4951, 9902]} *)
let%op f x = ([0; 1; 2; 3; 4; 5; 6; 7; 8; 9; 10; 11; 12; 13; 14; 15; 16; 17; 18; 19; 20; 21; 22; 23; 24; 25; 26; 27; 28; 29; 30; 31; 32; 33; 34; 35; 36; 37; 38; 39; 40; 41; 42; 43; 44; 45; 46; 47; 48; 49; 50; 51; 52; 53; 54; 55; 56; 57; 58; 59; 60; 61; 62; 63; 64; 65; 66; 67; 68; 69; 70; 71; 72; 73; 74; 75; 76; 77; 78; 79; 80; 81; 82; 83; 84; 85; 86; 87; 88; 89; 90; 91; 92; 93; 94; 95; 96; 97; 98; 99] ++ "i=>") *. x + x
---
(* integers as OCaml writes them *)
(* expect: {"batch": [], "output": [5], "input": [], "data": [31, -255, 15, 5, 1000]} *)
let%op f () = [0x1f; -0XF_F; 0o17; 0b101; 1_000]
---
(* error: parse: `0b12` is no number *)
let%op f () = 0b12
---
(* error: parse: `0xg` is no number *)
let%op f () = 0xg
---
(* negative numbers with a label *)
(* expect: {"batch": [], "output": [1], "input": [], "data": [-5], "labels": {"output": ["q"]}} *)
let%op f () = 'q' (-2.0) + - 'q' 3
---
(* error: parse: expected a number behind the label 'q', found `(` *)
let%op f x = 'q' (x + 1)
