//! Loops over dense row-major arrays, as Weld IR.
//!
//! An array is a flat `vec[T]` with its sizes. A [`View`] says where in it the element for a point of an iteration
//! space is: an offset, and a stride for each axis of the space (0 broadcasts). Three operations make loops of views:
//!
//! - [`map`]: the array of `f(a[p], b[p], ..)` for every point `p` of a space;
//! - [`contract`]: the same with axes that are reduced by `+ * min max`, or by any function in order ([`Fold`]);
//! - [`scatter`]: merges `f(a[p], ..)` into the places of an array that a view gives, for every point.
//!
//! ```
//! use weld_core::{interp, ir::{build, Names, Param, Program}, op::ReduceOp, ty::{ScalarKind, Type}};
//! use weld_tensor::{contract, Fold, Index, Size, View};
//! let mut names = Names::default();
//! let sym = names.fresh("m");
//! let m = build::var(sym, Type::vec(Type::F64));
//! let sizes = [Size::known(2), Size::known(3)];
//! // The sums of the rows: axis 0 stays, axis 1 is reduced.
//! let view = View::of(m, &sizes, &[Index::axis(0), Index::axis(1)], 2);
//! let fold = Fold::merge(ReduceOp::Add, ScalarKind::F64, 0.0);
//! let body = contract(&mut names, ScalarKind::F64, &sizes[..1], &sizes[1..], vec![view], fold, &mut |_, v| v[0].clone(), &mut |_, sum, _| sum);
//! let param = Param { sym, ty: Type::vec(Type::F64), stream: false, known: None };
//! let program = Program { params: vec![param], body, names };
//! let arg = interp::Value::vec((1..=6).map(|x| interp::Value::f64(x.into())));
//! let sums = interp::run(&program, &[arg], &Default::default()).unwrap();
//! assert_eq!(sums, interp::Value::vec([6.0, 15.0].map(interp::Value::f64)));
//! ```
//!
//! Loops come out so that they fuse and vectorise: axes that lie one behind the other in all views become one, a whole
//! vector is iterated over as it is, a row as a slice that is checked once, other views by their stride; what does not
//! change in the innermost loop is read before it. Sums may be reassociated. Sizes may be known or `i64` expressions.
//! An access outside its data is an error of the iterator, the slice or the lookup; nothing here is unchecked.
#![forbid(unsafe_code)]

mod contract;
mod scatter;
mod size;
mod view;

pub use contract::{Finish, Fold, Term, contract, map, reduce};
pub use scatter::{Place, scatter};
pub use size::Size;
pub use view::{Index, View};
