use super::*;
use crate::interp::{self, Value};
use crate::ir::{build::*, *};
use crate::op::*;
use crate::ty::*;

fn stream(names: &mut Names, name: &str, ty: Type) -> (Param, Expr) {
    let sym = names.fresh(name);
    (Param { sym, ty: Type::vec(ty.clone()), stream: true }, var(sym, Type::vec(ty)))
}

fn check_program(mut program: Program, args: &[Value]) {
    verify(&program).unwrap();
    println!("{program}\n----");
    let limits = interp::Limits::default();
    let before = interp::run(&program, args, &limits).unwrap();
    let dump = |name: &str, p: &Program| {
        let after = interp::run(p, args, &interp::Limits::default()).unwrap();
        assert_eq!(interp::json::to_json(&before), interp::json::to_json(&after), "{name}\n{p}");
    };
    let report = optimize(&mut program, &Config { dump: Some(&dump), ..Config::default() });
    println!("{program}\n{report}");
}

fn rows(n: i64) -> Value {
    let lit = |v| Value::Scalar(v);
    Value::vec((0..n).map(|i| {
        Value::structure([
            lit(Literal::I64(i % 4)),
            lit(Literal::I32((i % 100) as i32)),
            lit(Literal::I128(i as i128 * 1000 + 7)),
            lit(Literal::I128((i % 10) as i128)),
        ])
    }))
}

fn line() -> Type {
    Type::structure([Type::I64, Type::I32, Type::I128, Type::I128])
}

#[test]
fn q1() {
    let mut names = Names::default();
    let n = &mut names;
    let (p, s) = stream(n, "s", line());
    let f =
        for_(n, over(s), appender(line()), |_, b, _, r| if_(le(field(r.clone(), 1), i32(90)), merge(b.clone(), r), b));
    let body = let_(n, "f", result(f), |n, f| {
        let ty = Type::structure([Type::I64, Type::I128, Type::I128]);
        let p = for_(n, over(f), appender(ty), |n, b, _, r| {
            let disc = intrinsic(Intrinsic::CheckedSub, [i128(100), field(r.clone(), 3)]);
            let x = intrinsic(Intrinsic::CheckedMul, [field(r.clone(), 2), disc]);
            let_(n, "x", x, |_, x| merge(b, strct([field(r.clone(), 0), field(r, 2), x])))
        });
        let_(n, "p", result(p), |n, p| {
            let d = dict_merger(
                Type::I64,
                Type::structure([Type::I128, Type::I128, Type::I64]),
                MergeOp::All(ReduceOp::Add),
            );
            to_vec(result(for_(n, over(p), d, |_, b, _, r| {
                merge(b, strct([field(r.clone(), 0), strct([field(r.clone(), 1), field(r, 2), i64(1)])]))
            })))
        })
    });
    check_program(Program { params: vec![p], body, names }, &[rows(3000)]);
}

#[test]
fn q6() {
    let mut names = Names::default();
    let n = &mut names;
    let (p, s) = stream(n, "s", line());
    let f = for_(n, over(s), appender(line()), |_, b, _, r| {
        let c = and(le(field(r.clone(), 1), i32(90)), gt(field(r.clone(), 3), i128(5)));
        if_(c, merge(b.clone(), r), b)
    });
    let body = let_(n, "f", result(f), |n, f| {
        let d = merger(Type::structure([Type::I128, Type::I64]), MergeOp::All(ReduceOp::Add));
        result(for_(n, over(f), d, |_, b, _, r| {
            let x = intrinsic(Intrinsic::CheckedMul, [field(r.clone(), 2), field(r.clone(), 3)]);
            merge(b, strct([x, i64(1)]))
        }))
    });
    check_program(Program { params: vec![p], body, names }, &[rows(3000)]);
}

#[test]
fn q3() {
    let mut names = Names::default();
    let n = &mut names;
    let (p, s) = stream(n, "s", line());
    let tt = Type::dict(Type::I64, Type::vec(Type::structure([Type::I32])));
    let t = param(n, "t", tt.clone());
    let ExprKind::Var(tsym) = t.kind else { panic!() };
    let f = for_(n, over(s), appender(line()), |_, b, _, r| {
        let c = le(field(r.clone(), 1), i32(50));
        if_(c, merge(b.clone(), r), b)
    });
    let out = Type::structure([Type::I64, Type::I32, Type::I128, Type::I128]);
    let body = let_(n, "f", result(f), |n, f| {
        let j = for_(n, over(f), appender(out), |n, b, _, r| {
            let_(n, "m", opt_lookup(t, field(r.clone(), 0)), |n, m| {
                let l = for_(n, over(field(m.clone(), 1)), b.clone(), |_, b, _, v| {
                    merge(b, strct([field(r.clone(), 0), field(v, 0), field(r.clone(), 2), field(r, 3)]))
                });
                if_(field(m, 0), l, b)
            })
        });
        let_(n, "j", result(j), |n, j| {
            let k = Type::structure([Type::I64, Type::I32]);
            let d = dict_merger(k, Type::I128, MergeOp::All(ReduceOp::Add));
            to_vec(result(for_(n, over(j), d, |_, b, _, r| {
                let disc = intrinsic(Intrinsic::CheckedSub, [i128(100), field(r.clone(), 3)]);
                let x = intrinsic(Intrinsic::CheckedMul, [field(r.clone(), 2), disc]);
                merge(b, strct([strct([field(r.clone(), 0), field(r, 1)]), x]))
            })))
        })
    });
    let dict = Value::dict([(
        Value::i64(1),
        Value::vec([Value::structure([Value::i32(5)]), Value::structure([Value::i32(6)])]),
    )]);
    check_program(
        Program { params: vec![p, Param { sym: tsym, ty: tt, stream: false }], body, names },
        &[rows(3000), dict],
    );
}
