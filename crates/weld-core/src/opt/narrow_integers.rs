//! Runs 128-bit decimal arithmetic in 64 bits wherever the rows at hand allow it.
//!
//! ```weld
//! for(c, B, |b, i, r| merge(b, {r.$0, checked_mul(r.$1, r.$2)}))                    # inside a loop over chunks
//! =>
//! let m = result(for(c, merger[{i128,i128},|], |b, i, r| merge(b, {magnitude(r.$1), magnitude(r.$2)})));
//! if((f64(m.$0) + 1.0) * (f64(m.$1) + 1.0) < 4.6e18,
//!   for(c, B, |b, i, r| merge(b, {r.$0, i128(i64(r.$1) * i64(r.$2))})),
//!   for(c, B, |b, i, r| merge(b, {r.$0, checked_mul(r.$1, r.$2)})))
//! ```
//!
//! Law: the `|` of the magnitudes of a column bounds every value of it in these rows by `m + 1`. Bounds of sums are sums
//! of bounds, bounds of products products; each factor is at least 1, so the bound of a whole expression bounds its
//! parts. Where it stays below 2^62, half of what 64 bits hold (a margin far above the rounding of `f64`), 64-bit
//! arithmetic gives the same values, and no check can fire. Otherwise the original loop runs.
//!
//! A loop that merges at most once a row into a merger with `+` fields of `i128` also gets a 64-bit merger of its own,
//! whose result is merged into the outer one once a chunk; its sums are bounded by bound times rows.
//!
//! Columns are fields of the chunk's rows: in `for(c, .., |b, i, r| ..)` of `r`, in
//! `for(sel, .., |b, i, j| let r = lookup(c, i64(j)); ..)` of `r`. Their magnitudes are taken over the same rows, so a
//! loop over few selected rows pays for few. Absent values of nullable columns are zero and need no care. A loop over a
//! stream that reads such columns is put into a loop over chunks first, unless it uses its index.
//!
//! Never worse by much: reading the columns once more costs little beside 128-bit arithmetic, and brings them into the
//! cache. Plain copies of columns are not touched.

use super::Config;
use super::narrow_loop::narrow_loop;
use super::split_stages::{chunk_iter, over_stream};
use crate::ir::{Expr, ExprKind, Func, Iter, Names, Program, Sym, build, deep};
use crate::op::{BinaryOp, Intrinsic};
use crate::ty::{BuilderType, Type};

pub(super) fn run(program: &mut Program, config: &Config) {
    let streams: Vec<Sym> = program.params.iter().filter(|p| p.stream).map(|p| p.sym).collect();
    let names = &mut program.names;
    program.body.rewrite_down(&mut |e| {
        if over_stream(e, &streams) && is_wide_loop(e) {
            wrap_in_chunks(e, config.chunk_rows, names);
        }
    });
    visit(&mut program.body, None, names);
}

/// Whether a loop computes with `i128` values of its rows and does little else: beside the probe of a table the
/// arithmetic is not worth a second copy of the code.
fn is_wide_loop(e: &Expr) -> bool {
    let mut wide = false;
    let mut probes = false;
    e.walk(&mut |e| {
        probes |= matches!(e.kind, ExprKind::OptLookup { .. } | ExprKind::KeyExists { .. });
        wide |= match &e.kind {
            ExprKind::Binary(op, a, _) => a.ty == Type::I128 && *op != BinaryOp::Pow,
            ExprKind::Intrinsic(intrinsic, args) => {
                args.first().is_some_and(|a| a.ty == Type::I128) && *intrinsic != Intrinsic::Magnitude
            }
            ExprKind::Merge { builder, value } => match &builder.ty {
                Type::Builder(BuilderType::Merger { .. }) => {
                    value.ty == Type::I128 || value.ty.fields().is_some_and(|fields| fields.contains(&Type::I128))
                }
                _ => false,
            },
            _ => false,
        }
    });
    wide && !probes
}

/// `for(s, B, f)` is `for(chunkiter(s, n), B, |b, k, c| for(c, b, f))` when `f` does not use its index.
fn wrap_in_chunks(e: &mut Expr, rows: u32, names: &mut Names) {
    let ExprKind::For { iter, builder, func } = &mut e.kind else { return };
    let Iter::Vector(data) = &**iter else { return };
    let (chunk_ty, builder_ty) = (data.ty.clone(), builder.ty.clone());
    let (b, k, c) = (names.fresh_like(func.params[0].0), names.fresh("k"), names.fresh("c"));
    let empty = Func { params: Vec::new(), body: Box::new(build::bool(false)) };
    let inner = std::mem::replace(func, empty);
    let chunk = build::over(build::var(c, chunk_ty.clone()));
    let body = build::for_func(chunk, build::var(b, builder_ty.clone()), inner);
    *func = Func { params: vec![(b, builder_ty), (k, Type::I64), (c, chunk_ty)], body: Box::new(body) };
    chunk_iter(e, rows);
}

/// Narrows the loops over rows of `chunk`.
fn visit(e: &mut Expr, chunk: Option<&(Sym, Type)>, names: &mut Names) {
    deep(|| {
        if let ExprKind::For { iter, builder, func } = &mut e.kind
            && matches!(**iter, Iter::Chunks { .. })
        {
            visit(builder, chunk, names);
            let inner = func.params[2].clone();
            visit(&mut func.body, Some(&inner), names);
            return;
        }
        if let Some(chunk) = chunk
            && matches!(e.kind, ExprKind::For { .. })
            && is_wide_loop(e)
        {
            narrow_loop(e, chunk, names);
            return;
        }
        e.each_child_mut(&mut |child| visit(child, chunk, names));
        if let ExprKind::Let { bindings, body } = &mut e.kind {
            *e = build::let_in(std::mem::take(bindings), body.take());
        }
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::inline_lets;

    fn check(before: &str, after: Expect) {
        super::super::testing::check_after(&[super::run, inline_lets::run], before, &after);
    }

    #[test]
    fn a_product_for_groups() {
        check(
            "|s: stream[{i64,i128,i128}]| tovec(result(for(s, dictmerger[i64,i128,+], |b, i, r|
               merge(b, {r.$0, checked_mul(r.$1, checked_sub(100LL, r.$2))}))))",
            expect![[r#"
                |s: stream[{i64,i128,i128}]|
                  tovec(result(for(
                    chunkiter(s, 1024L),
                    dictmerger[i64,i128,+],
                    |b, k, c|
                      let m = result(for(
                        c,
                        merger[{i128,i128},|],
                        |b_2, i, x| merge(b_2, {magnitude(x.$1), magnitude(x.$2)})
                      ));
                      if(
                        (f64(m.$0) + 1.0) * (100.0 + (f64(m.$1) + 1.0)) < 4.611686018427388e18,
                        for(c, b, |b_3, i_2, r| merge(b_3, {r.$0, i128(i64(r.$1) * (100L - i64(r.$2)))})),
                        for(
                          c,
                          b,
                          |b_4, i_3, r_2| merge(b_4, {r_2.$0, checked_mul(r_2.$1, checked_sub(100LL, r_2.$2))})
                        )
                      )
                  )))
            "#]],
        );
    }

    #[test]
    fn a_sum_of_its_own() {
        check(
            "|s: stream[{i64,i128,i128}]| result(for(s, merger[{i128,i64},+], |b, i, r|
               if(r.$2 > 5LL, merge(b, {r.$1, 1L}), b)))",
            expect![[r#"
                |s: stream[{i64,i128,i128}]|
                  result(for(
                    chunkiter(s, 1024L),
                    merger[{i128,i64},+],
                    |b, k, c|
                      let m = result(for(
                        c,
                        merger[{i128,i128},|],
                        |b_2, i, x| merge(b_2, {magnitude(x.$2), magnitude(x.$1)})
                      ));
                      if(
                        f64(m.$0) + 1.0 < 4.611686018427388e18 && 5.0 < 4.611686018427388e18 &&
                        (f64(m.$1) + 1.0) * f64(len(c)) < 4.611686018427388e18,
                        let local = result(for(
                          c,
                          merger[{i64,i64},+],
                          |b_3, i_2, r| if(i64(r.$2) > 5L, merge(b_3, {i64(r.$1), 1L}), b_3)
                        ));
                        merge(b, {i128(local.$0), local.$1}),
                        for(c, b, |b_4, i_3, r_2| if(r_2.$2 > 5LL, merge(b_4, {r_2.$1, 1L}), b_4))
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn a_selection() {
        check(
            "|s: stream[{i64,i128}]| result(for(chunkiter(s, 1024L), appender[i128], |b, k, c|
               let sel = result(for(c, appender[i32](len(c)), |sb, i, r| if(r.$1 > 5LL, merge(sb, i32(i)), sb)));
               for(sel, b, |b2, i, j| let r = lookup(c, i64(j)); merge(b2, checked_add(r.$1, r.$1)))))",
            expect![[r#"
                |s: stream[{i64,i128}]|
                  result(for(
                    chunkiter(s, 1024L),
                    appender[i128],
                    |b, k, c|
                      let sb = appender[i32](len(c));
                      let sel = result(if(
                        f64(result(for(c, merger[i128,|], |b_2, i, x| merge(b_2, magnitude(x.$1))))) + 1.0 <
                        4.611686018427388e18 &&
                        5.0 < 4.611686018427388e18,
                        for(c, sb, |sb_2, i_2, r| if(i64(r.$1) > 5L, merge(sb_2, i32(i_2)), sb_2)),
                        for(c, sb, |sb_3, i_3, r_2| if(r_2.$1 > 5LL, merge(sb_3, i32(i_3)), sb_3))
                      ));
                      let bound = f64(result(for(
                        sel,
                        merger[i128,|],
                        |b_3, i_4, x_2| merge(b_3, magnitude((@(unchecked:true) lookup(c, i64(x_2))).$1))
                      ))) +
                      1.0;
                      if(
                        bound + bound < 4.611686018427388e18,
                        for(
                          sel,
                          b,
                          |b2, i_5, j| let r_3 = lookup(c, i64(j)); merge(b2, i128(i64(r_3.$1) + i64(r_3.$1)))
                        ),
                        for(
                          sel,
                          b,
                          |b2_2, i_6, j_2| let r_4 = lookup(c, i64(j_2)); merge(b2_2, checked_add(r_4.$1, r_4.$1))
                        )
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn shared_parts_and_parameters() {
        check(
            "|s: stream[{i64,{i128,bool}}], p: i128| result(for(s, appender[{i128,i128}], |b, i, r|
               let x = checked_sub(p, r.$1.$0); let y = checked_mul(x, x); merge(b, {y, checked_mul(y, i128(7))})))",
            expect![[r#"
                |s: stream[{i64,{i128,bool}}], p: i128|
                  result(for(
                    chunkiter(s, 1024L),
                    appender[{i128,i128}],
                    |b, k, c|
                      let bound = f64(magnitude(p)) + 1.0 +
                      (f64(result(for(c, merger[i128,|], |b_2, i, x| merge(b_2, magnitude(x.$1.$0))))) + 1.0);
                      let bound_2 = bound * bound;
                      if(
                        bound < 4.611686018427388e18 && bound_2 < 4.611686018427388e18 &&
                        bound_2 * 4294967296.0 < 4.611686018427388e18,
                        for(
                          c,
                          b,
                          |b_3, i_2, r|
                            let x_2 = i64(p) - i64(r.$1.$0);
                            let y = x_2 * x_2;
                            merge(b_3, {i128(y), i128(y * i64(7))})
                        ),
                        for(
                          c,
                          b,
                          |b_4, i_3, r_2|
                            let x_3 = checked_sub(p, r_2.$1.$0);
                            let y_2 = checked_mul(x_3, x_3);
                            merge(b_4, {y_2, checked_mul(y_2, i128(7))})
                        )
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn copies_are_not_touched() {
        check(
            "|s: stream[{i64,i128}]| tovec(result(for(s, dictmerger[i64,i128,+], |b, i, r| merge(b, {r.$0, r.$1}))))",
            expect![[r#"
                |s: stream[{i64,i128}]|
                  tovec(result(for(s, dictmerger[i64,i128,+], |b, i, r| merge(b, {r.$0, r.$1}))))
            "#]],
        );
    }

    #[test]
    fn other_sources_stay_wide() {
        check(
            "|s: stream[{i64,i128}], t: dict[i64,vec[i128]]| result(for(s, appender[i128], |b, i, r|
               if(r.$0 > 0L, for(lookup(t, r.$0), b, |b2, j, v| merge(b2, checked_mul(r.$1, v))), b)))",
            expect![[r#"
                |s: stream[{i64,i128}], t: dict[i64,vec[i128]]|
                  result(for(
                    chunkiter(s, 1024L),
                    appender[i128],
                    |b, k, c|
                      for(
                        c,
                        b,
                        |b_2, i, r|
                          if(r.$0 > 0L, for(lookup(t, r.$0), b_2, |b2, j, v| merge(b2, checked_mul(r.$1, v))), b_2)
                      )
                  ))
            "#]],
        );
    }
}
