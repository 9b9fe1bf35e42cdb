//! Accounting of what a run's values occupy, so that a program cannot take more than its limit.
//!
//! Every vector, dictionary and builder holds a [`Charge`]; dropping it gives the bytes back. Values that the host
//! made are charged to nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The account of one run.
#[derive(Debug)]
pub(crate) struct Meter {
    limit: usize,
    used: AtomicUsize,
}

impl Meter {
    pub(crate) fn new(limit: usize) -> Arc<Meter> {
        Arc::new(Meter { limit, used: AtomicUsize::new(0) })
    }
}

/// Bytes held by one value; given back on drop.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    meter: Option<Arc<Meter>>,
    bytes: usize,
}

/// The run's memory limit would be exceeded.
#[derive(Debug)]
pub(crate) struct OutOfMemory;

impl Charge {
    /// Charges nobody: for values made by the host.
    pub(crate) const FREE: Charge = Charge { meter: None, bytes: 0 };

    pub(crate) fn new(meter: &Arc<Meter>) -> Charge {
        Charge { meter: Some(meter.clone()), bytes: 0 }
    }

    /// An empty charge to the same account.
    pub(crate) fn sibling(&self) -> Charge {
        Charge { meter: self.meter.clone(), bytes: 0 }
    }

    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let Some(meter) = &self.meter else { return Ok(()) };
        let before = meter.used.fetch_add(bytes, Ordering::Relaxed);
        if bytes > meter.limit || before > meter.limit - bytes {
            meter.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(OutOfMemory);
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_gives_back() {
        let meter = Meter::new(100);
        let mut a = Charge::new(&meter);
        assert!(a.grow(60).is_ok());
        let mut b = Charge::new(&meter);
        assert!(b.grow(60).is_err());
        drop(a);
        assert!(b.grow(100).is_ok());
        assert!(b.grow(usize::MAX).is_err());
    }
}
