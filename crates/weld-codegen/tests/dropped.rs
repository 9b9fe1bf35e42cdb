//! Code that is dropped leaves nothing behind. A process of its own: memory is counted.

use std::sync::Arc;

use weld_codegen::{Chunk, Column, Compiled, OptLevel, Options, Value, compile};
use weld_core::parse_program;
use weld_runtime::Context;

/// So many programs are compiled before and between two looks.
const PROGRAMS: usize = 50;

/// What a program may leave: parts of tables that grow by doubling. Its code takes 20 kB.
const BYTES_MAX: usize = 200;

/// Bytes that Rust and LLVM have from the C library's allocator, and how many pieces of the address space are mapped.
fn memory() -> (usize, usize) {
    // SAFETY: the call only reads what the allocator knows of itself.
    let info = unsafe { libc::mallinfo2() };
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux says what is mapped");
    (info.uordblks + info.hblkhd, maps.lines().count())
}

fn compiled(text: &str, level: OptLevel) -> Arc<Compiled> {
    let program = parse_program(text).expect("it parses");
    compile(&program, &Options { level, ..Options::default() }).expect("it compiles")
}

/// A program over a whole vector, and one over a stream, each run once.
fn made(number: i64, level: OptLevel) -> [Arc<Compiled>; 2] {
    let context = || Arc::new(Context::unlimited());
    let whole = format!("|v: vec[i64], k: i64| result(for(v, appender[i64], |b, i, x| merge(b, x * k + {number}L)))");
    let whole = compiled(&whole, level);
    let args = [Value::vector::<i64>(vec![1, 2]), Value::i64(10)];
    let found = whole.run(&context(), &args).expect("it runs");
    assert_eq!(found.as_slice::<i64>(), Some(&[10 + number, 20 + number][..]));
    let streamed = format!("|s: stream[{{i64}}]| result(for(s, merger[i64,+], |b, i, x| merge(b, x.$0 + {number}L)))");
    let streamed = compiled(&streamed, level);
    let mut stream = streamed.stream(context(), Vec::new()).expect("it starts");
    stream.process(&Chunk::new(2, vec![Column::values(&[1_i64, 2])])).expect("it runs");
    assert_eq!(stream.finish().expect("it ends").as_i64(), Some(3 + 2 * number));
    [whole, streamed]
}

#[test]
fn dropped_code_leaves_nothing() {
    for level in [OptLevel::O0, OptLevel::O2] {
        // One that stays, so that there is a linker all the time.
        let kept = made(0, level);
        (1..=PROGRAMS).for_each(|number| drop(made(number as i64, level)));
        let (bytes, pieces) = memory();
        (1..=PROGRAMS).for_each(|number| drop(made(-(number as i64), level)));
        let (bytes_now, pieces_now) = memory();
        let left = bytes_now.saturating_sub(bytes) / (2 * PROGRAMS);
        assert!(left < BYTES_MAX, "{level:?}: {left} bytes are left of each program");
        assert!(pieces_now < pieces + 5, "{level:?}: {pieces} mappings, then {pieces_now}");
        drop(kept);
    }
}
