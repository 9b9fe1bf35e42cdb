//! Whole pipelines through all passes: what queries become, and that no pass changes what they give.

use expect_test::{Expect, expect};

use super::testing::{check_each_pass, optimized, verified};

fn check(before: &str, after: Expect) {
    after.assert_eq(&format!("{}\n", optimized(before)));
    check_each_pass(before);
}

const LINE: &str = "stream[{i64,i32,i128,i128,vec[u8]}]";

#[test]
fn filter_project_group() {
    check(
        &format!(
            "|s: {LINE}|
             let f = result(for(s, appender, |b, i, r| if(r.$1 <= 7, merge(b, r), b)));
             let p = result(for(f, appender, |b, i, r|
               let x = checked_mul(r.$2, checked_sub(10LL, r.$3)); merge(b, {{r.$4, r.$2, x, checked_mul(x, checked_add(10LL, r.$3))}})));
             tovec(result(for(p, dictmerger[vec[u8],{{i128,i128,i128,i64}},+], |b, i, r| merge(b, {{r.$0, {{r.$1, r.$2, r.$3, 1L}}}}))))"
        ),
        expect![[r#"
            |s: stream[{i64,i32,i128,i128,vec[u8]}]|
              tovec(result(for(
                chunkiter(s, 1024L),
                dictmerger[vec[u8],{i128,i128,i128,i64},+],
                |b, k, c|
                  for(
                    result(for(c, appender[i32](len(c)), |b_3, i_2, x| if(x.$1 <= 7, merge(b_3, i32(i_2)), b_3))),
                    b,
                    |b_2, i, j|
                      let r = @(unchecked:true) lookup(c, i64(j));
                      let x_2 = checked_mul(r.$2, checked_sub(10LL, r.$3));
                      merge(b_2, {r.$4, {r.$2, x_2, checked_mul(x_2, checked_add(10LL, r.$3)), 1L}})
                  )
              )))
        "#]],
    );
}

#[test]
fn filter_sum() {
    check(
        &format!(
            "|s: {LINE}|
             let f = result(for(s, appender, |b, i, r| if(r.$1 <= 7 && r.$1 > 1 && r.$3 < 5LL, merge(b, {{r.$2, r.$3}}), b)));
             result(for(f, merger[{{i128,bool}},{{+,|}}], |b, i, r| merge(b, {{checked_mul(r.$0, r.$1), true}})))"
        ),
        expect![[r#"
            |s: stream[{i64,i32,i128,i128,vec[u8]}]|
              result(for(
                chunkiter(s, 1024L),
                merger[{i128,bool},{+,|}],
                |b, k, c|
                  let sel = result(for(
                    c,
                    appender[i32](len(c)),
                    |b_2, i, x| if(x.$1 <= 7 & x.$1 > 1, merge(b_2, i32(i)), b_2)
                  ));
                  let rows = result(for(
                    sel,
                    appender[i32](len(sel)),
                    |b_3, i_2, x_2| if((@(unchecked:true) lookup(c, i64(x_2))).$3 < 5LL, merge(b_3, x_2), b_3)
                  ));
                  let m = result(for(
                    rows,
                    merger[{i128,i128},|],
                    |b_4, i_3, x_3|
                      let r = @(unchecked:true) lookup(c, i64(x_3));
                      merge(b_4, {magnitude(r.$2), magnitude(r.$3)})
                  ));
                  if(
                    (f64(m.$0) + 1.0) * (f64(m.$1) + 1.0) * f64(len(rows)) < 4.611686018427388e18,
                    let local = result(for(
                      rows,
                      merger[{i64,bool},{+,|}],
                      |b_5, i_4, j|
                        let r_2 = @(unchecked:true) lookup(c, i64(j));
                        merge(b_5, {i64(r_2.$2) * i64(r_2.$3), true})
                    ));
                    merge(b, {i128(local.$0), local.$1}),
                    for(
                      rows,
                      b,
                      |b_6, i_5, j_2|
                        let r_3 = @(unchecked:true) lookup(c, i64(j_2));
                        merge(b_6, {checked_mul(r_3.$2, r_3.$3), true})
                    )
                  )
              ))
        "#]],
    );
}

#[test]
fn filter_probe_group() {
    check(
        &format!(
            "|s: {LINE}, t: dict[i64,vec[{{i32,i32}}]]|
             let f = result(for(s, appender, |b, i, r| if(r.$1 > 3, merge(b, {{r.$0, r.$2, r.$3}}), b)));
             let j = result(for(f, appender, |b, i, r|
               let m = optlookup(t, r.$0);
               if(m.$0, for(m.$1, b, |b2, j, v| merge(b2, {{r.$0, v.$0, v.$1, r.$1, r.$2}})), b)));
             let p = result(for(j, appender, |b, i, r| merge(b, {{{{r.$0, r.$1, r.$2}}, checked_mul(r.$3, checked_sub(10LL, r.$4))}})));
             tovec(result(for(p, dictmerger[{{i64,i32,i32}},i128,+], |b, i, r| merge(b, r))))"
        ),
        expect![[r#"
            |s: stream[{i64,i32,i128,i128,vec[u8]}], t: dict[i64,vec[{i32,i32}]]|
              tovec(result(for(
                chunkiter(s, 1024L),
                dictmerger[{i64,i32,i32},i128,+],
                |b, k, c|
                  let sel = result(for(
                    c,
                    appender[i32](len(c)),
                    |b_2, i, x| if(x.$1 > 3, merge(b_2, i32(i)), b_2)
                  ));
                  for(
                    result(for(
                      sel,
                      appender[i32](len(sel)),
                      |b_4, i_3, x_2|
                        if(may_contain(t, (@(unchecked:true) lookup(c, i64(x_2))).$0), merge(b_4, x_2), b_4)
                    )),
                    b,
                    |b_3, i_2, j|
                      let r = @(unchecked:true) lookup(c, i64(j));
                      let m = optlookup(t, r.$0);
                      if(
                        m.$0,
                        for(
                          m.$1,
                          b_3,
                          |b2, j_2, v|
                            merge(b2, {{r.$0, v.$0, v.$1}, checked_mul(r.$2, checked_sub(10LL, r.$3))})
                        ),
                        b_3
                      )
                  )
              )))
        "#]],
    );
}

#[test]
fn nullable_columns_and_case() {
    check(
        "|s: stream[{{i64,bool},{i128,bool},{vec[u8],bool}}]|
         let f = result(for(s, appender, |b, i, r| if(r.$0.$1 && r.$0.$0 > 2L, merge(b, r), b)));
         let p = result(for(f, appender, |b, i, r|
           let x = if(r.$1.$1, checked_mul(r.$1.$0, 3LL), 0LL);
           let c = if(r.$2.$1 && r.$0.$0 > 4L, {x, r.$1.$1}, if(true, {0LL, true}, {1LL, false}));
           merge(b, {r.$2, {select(c.$1, c.$0, 0LL), c.$1}})));
         tovec(result(for(p, dictmerger[{vec[u8],bool},{i128,bool,i64},{+,|,+}], |b, i, r|
           merge(b, {r.$0, {select(r.$1.$1, r.$1.$0, 0LL), r.$1.$1, select(r.$1.$1, 1L, 0L)}}))))",
        expect![[r#"
            |s: stream[{{i64,bool},{i128,bool},{vec[u8],bool}}]|
              tovec(result(for(
                chunkiter(s, 1024L),
                dictmerger[{vec[u8],bool},{i128,bool,i64},{+,|,+}],
                |b, k, c|
                  for(
                    result(for(
                      c,
                      appender[i32](len(c)),
                      |b_3, i_2, x| if(x.$0.$1 & x.$0.$0 > 2L, merge(b_3, i32(i_2)), b_3)
                    )),
                    b,
                    |b_2, i, j|
                      let r = @(unchecked:true) lookup(c, i64(j));
                      let c_2 = r.$2.$1 & r.$0.$0 > 4L;
                      let c_3 = !c_2 | r.$1.$1;
                      merge(
                        b_2,
                        {
                          r.$2,
                          {
                            select(c_3, select(c_2, if(r.$1.$1, checked_mul(r.$1.$0, 3LL), 0LL), 0LL), 0LL),
                            c_3,
                            select(c_3, 1L, 0L)
                          }
                        }
                      )
                  )
              )))
        "#]],
    );
}

#[test]
fn build_side_with_bounds() {
    check(
        "|s: stream[{i64,i32}]|
         let f = result(for(s, appender, |b, i, r| if(r.$1 > 3, merge(b, r), b)));
         let bs = for(f, {groupbuilder[i64,{i32}], merger[{i64,i64},{min,max}]}, |b, i, r|
           {merge(b.$0, {r.$0, {r.$1}}), merge(b.$1, {r.$0, r.$0})});
         {tovec(result(bs.$0)), result(bs.$1)}",
        expect![[r#"
            |s: stream[{i64,i32}]|
              let bs = for(
                chunkiter(s, 1024L),
                {groupbuilder[i64,{i32}], merger[{i64,i64},{min,max}]},
                |b, k, c|
                  for(
                    result(for(c, appender[i32](len(c)), |b_3, i_2, x| if(x.$1 > 3, merge(b_3, i32(i_2)), b_3))),
                    b,
                    |b_2, i, j|
                      let r = @(unchecked:true) lookup(c, i64(j));
                      {merge(b_2.$0, {r.$0, {r.$1}}), merge(b_2.$1, {r.$0, r.$0})}
                  )
              );
              {tovec(result(bs.$0)), result(bs.$1)}
        "#]],
    );
}

#[test]
fn rows_out() {
    check(
        "|s: stream[{i64,i32,{f64,bool}}]|
         let f = result(for(s, appender, |b, i, r| if(r.$1 > 3 && r.$2.$1, merge(b, {r.$0 * 2L, r.$2}), b)));
         result(for(f, appender, |b, i, r| merge(b, {r.$1, r.$0 + 1L})))",
        expect![[r#"
            |s: stream[{i64,i32,{f64,bool}}]|
              result(for(
                chunkiter(s, 1024L),
                appender[{{f64,bool},i64}],
                |b, k, c|
                  for(
                    result(for(
                      c,
                      appender[i32](len(c)),
                      |b_3, i_2, x| if(x.$1 > 3 & x.$2.$1, merge(b_3, i32(i_2)), b_3)
                    )),
                    b,
                    |b_2, i, j| let r = @(unchecked:true) lookup(c, i64(j)); merge(b_2, {r.$2, r.$0 * 2L + 1L})
                  )
              ))
        "#]],
    );
}

#[test]
fn maps_over_vectors() {
    check(
        "|v: vec[f64], w: vec[f64]|
         let a = map(v, |x| x * 2.0);
         let b = map(zip(a, w), |x| x.$0 + x.$1);
         let c = filter(b, |x| x > 1.0);
         {sum(c), result(for(w, merger[f64,max], |b, i, x| merge(b, sqrt(x))))}",
        expect![[r#"
            |v: vec[f64], w: vec[f64]|
              {
                result(for(
                  zip(v, w),
                  merger[f64,+],
                  |b, i, x| let x_2 = x.$0 * 2.0 + x.$1; merge(b, select(x_2 > 1.0, x_2, -0.0))
                )),
                result(for(w, merger[f64,max], |b_2, i_2, x_3| merge(b_2, sqrt(x_3))))
              }
        "#]],
    );
}

/// Long, wide and deep programs go through; each pass is about linear (`weld explain` shows the times).
#[test]
fn large_programs() {
    let repeat = |count: usize, part: &dyn Fn(usize) -> String| (0..count).map(part).collect::<String>();
    let lets = repeat(10_000, &|i| format!("let x{} = x{i} + {i}L * x0; ", i + 1));
    verified(&format!("|x0: i64| {lets} x10000"));
    let filters = repeat(200, &|i| {
        format!("let v{} = result(for(v{i}, appender, |b, i, y| if(y > {i}L, merge(b, y + x * {i}L), b))); ", i + 1)
    });
    verified(&format!("|v0: vec[i64], x: i64| {filters} v200"));
    let structs = repeat(1000, &|i| format!("let a{i} = {{s.$0 * {i}L, {{s.$1 + {i}L, s}}}}; "));
    verified(&format!("|s: {{i64,i64}}| {structs} a5.$0 + a999.$1.$0 * a77.$1.$1.$0"));
    let (ifs, ends) = (repeat(300, &|i| format!("if(x > {i}L, x * {i}L, ")), ")".repeat(300));
    verified(&format!("|x: i64| {ifs} 0L{ends}"));
}
