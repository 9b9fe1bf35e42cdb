//! How a program is compiled.

use std::collections::BTreeSet;

use crate::analysis::loop_plan::FastPath;
use crate::cudf::Cudf;
use crate::tier::Tiers;

/// How much work LLVM does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub enum OptLevel {
    /// No passes, fast instruction selection: code in a millisecond or two.
    O0,
    /// Registers, simple clean-up.
    O1,
    /// Everything, vectorisation included.
    #[default]
    O2,
}

/// Which instructions the code may use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Cpu {
    /// All that this machine has.
    #[default]
    Host,
    /// The architecture's baseline.
    Portable,
}

/// How hard LLVM tries, what the code may use, and what is left out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    pub level: OptLevel,
    /// Whether programs with a stream start on code that is made with less effort.
    pub tiers: Tiers,
    pub cpu: Cpu,
    /// Threads that parallel loops may use; 1 is sequential.
    pub threads: usize,
    /// The fewest iterations of a parallel loop that are worth a thread's while, instead of what the loop itself
    /// suggests.
    pub grain: Option<u64>,
    /// Let LLVM vectorise loops, at O2.
    pub vectorize: bool,
    /// Programs of more nodes are cut into functions, which LLVM takes less time for than for one.
    pub uncut_nodes: usize,
    /// Instrument the code for AddressSanitizer, which the process must be built with (`sanitizer.rs`).
    pub sanitize: bool,
    /// Ways of running loops that are left out, to compare what the code gives without them.
    pub disabled: BTreeSet<FastPath>,
    /// C functions that programs may call.
    pub cudfs: Vec<Cudf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            level: OptLevel::default(),
            tiers: Tiers::default(),
            cpu: Cpu::default(),
            threads: 1,
            grain: None,
            vectorize: true,
            uncut_nodes: 2_000,
            sanitize: false,
            disabled: BTreeSet::new(),
            cudfs: Vec::new(),
        }
    }
}
