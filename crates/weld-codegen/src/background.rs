//! Work on a thread of low priority, so that it takes little from queries: optimised code for programs that come again.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// The niceness of the thread: against one that runs a query it gets two fifths of a processor. With 10 and 19 the
/// queries of TPC-DS (scale factor 1, two partitions, three runs each) take the same time.
const NICENESS: libc::c_int = 2;

/// Runs `work` on a thread of low priority, one at a time in the process, and waits for it. What panics there is lost.
pub fn in_background(work: impl FnOnce() + Send) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        let low = move || {
            // SAFETY: no memory is involved. On Linux this concerns the calling thread alone; a refusal leaves its
            // priority as it was.
            #[cfg(target_os = "linux")]
            unsafe {
                libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS)
            };
            work();
        };
        if let Ok(thread) = thread::Builder::new().name("weld-background".to_owned()).spawn_scoped(scope, low) {
            let _ = thread.join();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_done_and_a_panic_stays_there() {
        let mut done = false;
        in_background(|| done = true);
        assert!(done);
        in_background(|| panic!("of the work"));
        in_background(|| done = false);
        assert!(!done);
    }
}
