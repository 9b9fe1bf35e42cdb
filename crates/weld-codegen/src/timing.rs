//! Where the time of compiling goes: for each part of a program, the processor time of each phase and the size of its
//! code.
//!
//! ```text
//! process at O2: 412 instructions in 61 blocks, 305 after the passes; emit 0.4 ms, passes 3.1, select 4.0, link 0.3
//! ```
//!
//! Processor time of the compiling thread, not time on the clock: other threads do not show in it.

use std::time::Duration;

use inkwell::module::Module;

use crate::options::OptLevel;

/// What compiling a part of a program took.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The functions that were compiled together.
    pub part: &'static str,
    /// Whether the code came from disk: it was only linked here.
    pub is_stored: bool,
    /// The effort of LLVM's passes.
    pub passes_level: OptLevel,
    /// The effort of instruction selection.
    pub select_level: OptLevel,
    /// Code as it was emitted, before LLVM's passes.
    pub emitted: Size,
    /// Code after LLVM's passes.
    pub optimized: Size,
    pub emit: Duration,
    pub passes: Duration,
    /// From LLVM IR to an object file.
    pub select: Duration,
    pub link: Duration,
}

/// How much LLVM IR there is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Size {
    pub instructions: usize,
    pub blocks: usize,
}

impl Timing {
    pub(crate) fn new(part: &'static str, passes_level: OptLevel, select_level: OptLevel) -> Timing {
        Timing {
            part,
            is_stored: false,
            passes_level,
            select_level,
            emitted: Size::default(),
            optimized: Size::default(),
            emit: Duration::ZERO,
            passes: Duration::ZERO,
            select: Duration::ZERO,
            link: Duration::ZERO,
        }
    }

    /// Processor time of all phases.
    pub fn total(&self) -> Duration {
        self.emit + self.passes + self.select + self.link
    }
}

impl Size {
    pub(crate) fn of(module: &Module<'_>) -> Size {
        let mut size = Size::default();
        for block in module.get_functions().flat_map(|function| function.get_basic_block_iter()) {
            size.blocks += 1;
            size.instructions += block.get_instructions().count();
        }
        size
    }
}

/// A clock of the time that this thread has had a processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuClock {
    last: Duration,
}

impl CpuClock {
    pub(crate) fn start() -> CpuClock {
        CpuClock { last: thread_time() }
    }

    /// The time since the start or the last lap.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = thread_time();
        now.saturating_sub(std::mem::replace(&mut self.last, now))
    }
}

fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the struct only.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    match status {
        0 => Duration::new(time.tv_sec as u64, time.tv_nsec as u32),
        _ => Duration::ZERO,
    }
}
