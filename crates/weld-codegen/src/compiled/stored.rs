//! Kernels that come from disk instead of LLVM, and go there.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use super::Compiled;
use super::kernel::{Kernel, Part};
use crate::block::Site;
use crate::chunk::ColumnLayout;
use crate::jit::Jit;
use crate::store::{Description, Keep, Stored};
use crate::tier::Tier;
use crate::timing::{CpuClock, Timing};

/// Where the code of a program is kept, and what its descriptions begin with.
pub(super) struct Kept {
    pub(super) keep: Keep,
    pub(super) description: Description,
}

impl Compiled {
    /// Code that was made before, by this process or another.
    pub(super) fn stored(&self, part: Part<'_>, tier: Tier) -> Option<Arc<Kernel>> {
        let kept = self.kept.as_ref()?;
        let description = kept.describe(part, tier);
        let started = Instant::now();
        let stored = kept.keep.find(&description)?;
        let kernel = self.link(part, tier, stored);
        if kernel.is_none() {
            kept.keep.remove(&description);
        }
        self.note_time(started);
        kernel
    }

    fn link(&self, part: Part<'_>, tier: Tier, stored: Stored) -> Option<Arc<Kernel>> {
        let mut clock = CpuClock::start();
        let jit = Jit::shared().ok()?;
        let prefix = jit.fresh_prefix();
        let object = stored.object_with(&prefix)?;
        let bytes = stored.object.len();
        let code = jit.load(object, &part.functions(&prefix)).ok()?;
        let (passes, selection) = self.levels(part, tier);
        let mut timing = Timing::new(part.name(), passes, selection);
        (timing.is_stored, timing.link) = (true, clock.lap());
        [timing.emitted, timing.optimized] = stored.sizes;
        let Stored { sites, cost, .. } = stored;
        Some(Arc::new(Kernel { code, sites, tier, process: part.process(), timing, cost, bytes }))
    }

    /// Keeps an object for other processes.
    pub(super) fn keep(
        &self,
        part: Part<'_>,
        tier: Tier,
        prefix: &str,
        timing: &Timing,
        sites: &[Site],
        object: &[u8],
    ) {
        let Some(kept) = &self.kept else { return };
        let stored = Stored {
            prefix: prefix.to_owned(),
            cost: timing.total(),
            sizes: [timing.emitted, timing.optimized],
            sites: sites.to_vec(),
            object: object.to_vec(),
        };
        kept.keep.put(&kept.describe(part, tier), &stored);
    }
}

impl Kept {
    fn describe(&self, part: Part<'_>, tier: Tier) -> Description {
        let mut description = self.description.clone();
        let layouts: &[ColumnLayout] = match part {
            Part::Whole | Part::Ends => &[],
            Part::Process(layouts) | Part::All(layouts) => layouts,
        };
        (part.name(), tier, layouts).hash(&mut description);
        description
    }
}
