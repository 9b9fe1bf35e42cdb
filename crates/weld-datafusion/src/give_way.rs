//! Ends the turn of a task so that idle threads can take the tasks that wait behind it.
//!
//! Partitions are tokio tasks, and each works for as long as its input lasts. Two things of tokio's keep a task from an
//! idle thread meanwhile, so that partitions run one after the other:
//!
//! - A task that is woken by another one goes to a slot of that one's thread, from which no other thread takes it:
//!   tokio expects the waking task to pause soon. So where partitions wait for one of them (for code, for a table, for
//!   what is to be read of a file), that one pauses once when it is there.
//! - A task that awaits `tokio::task::yield_now`, or whose budget is exhausted, is woken when its thread has nothing
//!   else to do. If the thread takes another partition, of which there are two then, that is late. A task that wakes
//!   itself goes to the end of its thread's queue, from which idle threads take.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

/// A task works for so long at a time.
const TURN: Duration = Duration::from_millis(5);

/// Pauses once.
pub(crate) async fn give_way() {
    let mut has_paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// How long a task has worked.
#[derive(Debug)]
pub(crate) struct Turn(Instant);

impl Turn {
    pub(crate) fn start() -> Turn {
        Turn(Instant::now())
    }

    /// Gives way where it was long enough; here the task may be dropped.
    pub(crate) async fn pause(&mut self) {
        if self.0.elapsed() > TURN {
            give_way().await;
            self.0 = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Whether somebody else sets it within a minute, which this thread spends.
    fn is_set(flag: &AtomicBool) -> bool {
        let start = Instant::now();
        while !flag.load(Ordering::Acquire) && start.elapsed() < Duration::from_secs(60) {
            std::hint::spin_loop();
        }
        flag.load(Ordering::Acquire)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_was_woken_runs_beside_who_woke() {
        let (has_run, (wake, woken)) = (Arc::new(AtomicBool::new(false)), tokio::sync::oneshot::channel());
        let flag = Arc::clone(&has_run);
        let second = tokio::spawn(async move {
            let _ = woken.await;
            flag.store(true, Ordering::Release);
        });
        let first = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let _ = wake.send(());
            give_way().await;
            is_set(&has_run)
        });
        assert!(first.await.expect("no panic"), "the second task ran while the first one worked");
        second.await.expect("no panic");
    }

    #[tokio::test]
    async fn a_turn_ends_when_it_was_long() {
        let others = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&others);
        let other = tokio::spawn(async move { flag.store(true, Ordering::Release) });
        let mut turn = Turn(Instant::now() + Duration::from_secs(60));
        turn.pause().await;
        assert!(!others.load(Ordering::Acquire), "it has just begun");
        turn.0 = Instant::now().checked_sub(2 * TURN).expect("a clock that has run for so long");
        turn.pause().await;
        assert!(others.load(Ordering::Acquire));
        other.await.expect("no panic");
    }
}
