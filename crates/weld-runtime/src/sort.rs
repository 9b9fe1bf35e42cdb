//! Sorting on several threads: a merge sort of row numbers whose passes compiled code runs, with the comparator
//! inlined.
//!
//! Runs of rows that are a power of two wide are sorted each by one thread, and so are neighbouring ones merged:
//!
//! ```text
//! 0 .. 2048   passes 1, 2, .. 1024 \
//! 2048 .. 4096    the same         / pass 2048 \
//! 4096 .. 6144    the same         \            pass 4096, in pieces
//! 6144 .. 7000    the same         / pass 2048 /
//! ```
//!
//! A wide merge is cut into pieces by its output: a binary search finds how many rows of either run come before a cut.
//! What a merge does depends on nothing but how many rows it has taken of both runs. So where a piece ends with as many
//! as the next one began with, both together are what one thread would have merged; else the rest is merged again. Thus
//! the result is the same on any number of threads, even if the comparator is no order. When a comparator fails
//! somewhere, one thread starts over and finds the error that it would have come to alone.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::run::{Region, Run};

/// Merges neighbouring sorted runs as the order says. Gives a status; 0 is success.
pub type Passes = unsafe extern "C" fn(run: *mut Run, region: *mut Region, env: *const u8, order: *mut Order) -> u32;

/// What [`Passes`] is to do: merge runs of `from` among the rows `start .. end` into `to`, then back and so on, while
/// their width is below `until`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub from: *const u32,
    pub to: *mut u32,
    /// A multiple of twice the last width.
    pub start: u64,
    pub end: u64,
    pub width: u64,
    pub until: u64,
    /// How many rows of the left and of the right run have been merged before. Gets how many it was in the end.
    pub left: u64,
    pub right: u64,
    /// Where merging ends: the number of a row of `to`.
    pub stop: u64,
}

const _: () = assert!(size_of::<Order>() == 8 * Order::WORDS);

// SAFETY: an order only names rows; who has one writes to none but those that it says.
unsafe impl Send for Order {}

impl Order {
    /// All fields are words, in the order above.
    pub const WORDS: usize = 9;
    pub const LEFT_OFFSET: usize = std::mem::offset_of!(Order, left);
    pub const RIGHT_OFFSET: usize = std::mem::offset_of!(Order, right);

    /// Whole runs.
    fn new(from: *const u32, to: *mut u32, (start, end): (u64, u64), (width, until): (u64, u64)) -> Order {
        Order { from, to, start, end, width, until, left: 0, right: 0, stop: end }
    }
}

/// A sort as compiled code describes it.
#[repr(C)]
#[derive(Debug)]
pub struct Sort {
    pub passes: Passes,
    /// What the comparator uses of the values around.
    pub env: *const u8,
    /// Where memory comes from.
    pub region: *mut Region,
    /// Room for the numbers of the rows. After sorting they lie here in their order.
    pub numbers: *mut u32,
    /// As much room again; the two may have changed places.
    pub spare: *mut u32,
    /// At most `u32::MAX`.
    pub count: u64,
    /// The fewest rows that are worth a thread.
    pub grain: u64,
}

const _: () = assert!(size_of::<Sort>() == 8 * Sort::WORDS);

impl Sort {
    /// All fields are words, in the order above.
    pub const WORDS: usize = 7;
    pub const NUMBERS_OFFSET: usize = std::mem::offset_of!(Sort, numbers);
}

/// The most pieces for each thread: those done first help the others.
const PIECES: u64 = 16;

/// Sorts and gives the status.
///
/// # Safety
/// `run` is valid and owns the region; `numbers` and `spare` have room for `count` numbers; `passes` is right for
/// `env`, writes to nothing but its run and the rows that it is ordered to merge, and may run at the same time.
pub unsafe extern "C" fn sort(run: *mut Run, task: *mut Sort) -> u32 {
    // SAFETY: by the caller's promise.
    let (threads, task) = unsafe { ((*run).threads().cloned(), &mut *task) };
    let threads = threads.filter(|threads| threads.count() > 1 && task.count / 2 >= task.grain.max(1));
    let Some((threads, pool)) = threads.as_ref().and_then(|threads| Some((threads, threads.pool()?))) else {
        // SAFETY: by the caller's promise.
        return unsafe { task.sort_alone(run) };
    };
    // SAFETY: by the caller's promise.
    unsafe {
        task.sort_shared(run, threads.count() as u64, |sorting| {
            pool.install(|| {
                sorting.sort(&|a, b| {
                    rayon::join(a, b);
                })
            });
        })
    }
}

/// A piece of a merge.
struct Part {
    /// Where it begins: how many rows of the result come before.
    merged: u64,
    /// How many of these are of the left run, once that is found.
    left: u64,
    order: Order,
}

/// Runs two functions, perhaps at the same time.
type Join<'a> = &'a (dyn Fn(&mut (dyn FnMut() + Send), &mut (dyn FnMut() + Send)) + Sync);

/// What the threads that sort share.
struct Sorting<'a> {
    task: &'a Sort,
    run: *const Run,
    /// How many rows one thread sorts or merges alone: a power of two.
    piece: u64,
    failed: AtomicBool,
}

// SAFETY: the run is only asked for its context, which threads share; threads write to different rows of the numbers.
unsafe impl Sync for Sorting<'_> {}

impl Sort {
    /// # Safety
    /// As for [`sort`].
    unsafe fn sort_alone(&mut self, run: *mut Run) -> u32 {
        // SAFETY: by the caller's promise.
        unsafe {
            self.number_rows();
            let Sort { passes, env, region, numbers, spare, count, .. } = *self;
            let status = passes(run, region, env, &mut Order::new(numbers, spare, (0, count), (1, count)));
            self.settle(passes_until(count));
            status
        }
    }

    /// `work_on` calls [`Sorting::sort`].
    ///
    /// # Safety
    /// As for [`sort`], and the grain is at most half of `count`.
    unsafe fn sort_shared(&mut self, run: *mut Run, threads: u64, work_on: impl FnOnce(&Sorting<'_>)) -> u32 {
        let piece = self.grain.max(self.count / (threads * PIECES)).max(1).next_power_of_two();
        // SAFETY: by the caller's promise.
        unsafe { self.number_rows() };
        let sorting = Sorting { task: self, run, piece, failed: AtomicBool::new(false) };
        work_on(&sorting);
        if sorting.failed.into_inner() {
            // SAFETY: by the caller's promise; no other thread is sorting any more.
            return unsafe { self.sort_alone(run) };
        }
        self.settle(passes_until(self.count.max(piece)));
        0
    }

    /// # Safety
    /// There is room for the numbers, which nobody else uses.
    unsafe fn number_rows(&self) {
        for row in 0..self.count as usize {
            // SAFETY: by the caller's promise.
            unsafe { self.numbers.add(row).write(row as u32) };
        }
    }

    /// After so many passes.
    fn settle(&mut self, passes: u32) {
        if passes % 2 == 1 {
            std::mem::swap(&mut self.numbers, &mut self.spare);
        }
    }
}

impl Sorting<'_> {
    /// Sorts all rows.
    fn sort(&self, join: Join<'_>) {
        let width = self.task.count.max(self.piece).next_power_of_two();
        self.sort_rows(0, width, join);
    }

    /// Sorts the rows from `start` on, as many as `width`.
    fn sort_rows(&self, start: u64, width: u64, join: Join<'_>) {
        let Sort { numbers, spare, count, .. } = *self.task;
        if width <= self.piece {
            let rows = (start, count.min(start + width));
            let _failed = self.run(&mut Order::new(numbers, spare, rows, (1, width)));
            return;
        }
        let half = width / 2;
        if start + half < count {
            join(&mut || self.sort_rows(start, half, join), &mut || self.sort_rows(start + half, half, join));
        } else {
            self.sort_rows(start, half, join);
        }
        let (from, to) = if passes_until(half).is_multiple_of(2) { (numbers, spare) } else { (spare, numbers) };
        let _failed = self.merge(&Order::new(from, to, (start, count.min(start + width)), (half, width)), join);
    }

    /// Merges two runs in pieces. None if a comparator fails.
    fn merge(&self, order: &Order, join: Join<'_>) -> Option<()> {
        let rows = order.end - order.start;
        if rows <= order.width {
            // There is nothing to merge with.
            return self.run(&mut { *order });
        }
        let mut parts: Vec<Part> = (0..rows)
            .step_by(self.piece as usize)
            .map(|merged| Part {
                merged,
                left: 0,
                order: Order { stop: order.end.min(order.start + merged + self.piece), ..*order },
            })
            .collect();
        self.run_all(&mut parts, join)?;
        // A merge that the cuts were right for ends each piece where the next one begins.
        let wrong = parts.windows(2).find(|pair| pair[0].order.left != pair[1].left);
        match wrong {
            Some(pair) => self.run(&mut Order { stop: order.end, ..pair[0].order }),
            None => Some(()),
        }
    }

    /// How many of the first `merged` rows come from the left run, by a comparator that is an order.
    fn taken(&self, order: &Order, merged: u64) -> Option<u64> {
        let rows = order.end - order.start;
        let left = order.width.min(rows);
        let right = rows - left;
        let (mut low, mut high) = (merged.saturating_sub(right), merged.min(left));
        while low < high {
            let middle = low + (high - low) / 2;
            // SAFETY: both rows are in the runs, which are complete.
            let rows = unsafe {
                let first = order.from.add(order.start as usize);
                [*first.add(middle as usize), *first.add((left + merged - middle - 1) as usize)]
            };
            if self.in_order(rows)? { low = middle + 1 } else { high = middle }
        }
        Some(low)
    }

    /// Whether a merge takes the first of two rows before the other.
    fn in_order(&self, rows: [u32; 2]) -> Option<bool> {
        let mut merged = [0; 2];
        self.run(&mut Order::new(rows.as_ptr(), merged.as_mut_ptr(), (0, 2), (1, 2)))?;
        Some(merged[0] == rows[0])
    }

    /// None if a comparator fails in one of the parts.
    fn run_all(&self, parts: &mut [Part], join: Join<'_>) -> Option<()> {
        match parts {
            [] => Some(()),
            [part] => {
                part.left = self.taken(&part.order, part.merged)?;
                (part.order.left, part.order.right) = (part.left, part.merged - part.left);
                self.run(&mut part.order)
            }
            _ => {
                let (a, b) = parts.split_at_mut(parts.len() / 2);
                let (mut done_a, mut done_b) = (None, None);
                join(&mut || done_a = self.run_all(a, join), &mut || done_b = self.run_all(b, join));
                done_a.and(done_b)
            }
        }
    }

    /// None if a comparator fails, here or elsewhere.
    fn run(&self, order: &mut Order) -> Option<()> {
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        let Sort { passes, env, .. } = *self.task;
        // SAFETY: the context of the run is only read, by all threads.
        let mut run = Run::part(unsafe { (*self.run).context().clone() }, &self.failed);
        let region = run.region(0);
        // SAFETY: the run is this thread's own, and so are the rows that are merged.
        if unsafe { passes(&mut *run, region, env, order) } != 0 {
            self.failed.store(true, Ordering::Relaxed);
            return None;
        }
        Some(())
    }
}

/// How many passes make runs of at least `width` rows out of single ones.
fn passes_until(width: u64) -> u32 {
    width.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::Greater;
    use std::sync::Arc;

    use super::*;
    use crate::context::Context;
    use crate::status::Status;
    use crate::threads::Threads;

    /// The rows' keys, and the key that cannot be compared.
    struct Env {
        keys: Vec<u32>,
        greater: fn(u32, u32) -> bool,
        bad: Option<u32>,
    }

    unsafe extern "C" fn passes(run: *mut Run, _region: *mut Region, env: *const u8, order: *mut Order) -> u32 {
        // SAFETY: the tests pass an `Env`, and as many rows as it has keys.
        unsafe {
            let (env, order) = (&*env.cast::<Env>(), &mut *order);
            let (mut from, mut to, mut width) = (order.from, order.to, order.width);
            while width < order.until {
                for start in (order.start..order.end).step_by(2 * width as usize) {
                    let middle = order.end.min(start + width);
                    let end = order.end.min(middle + width);
                    let (mut left, mut right) = (start + order.left, middle + order.right);
                    for out in start + order.left + order.right..end.min(order.stop) {
                        let row = |at: u64| *from.add(at as usize);
                        let from_right = left == middle
                            || right < end && {
                                let (a, b) = (env.keys[row(left) as usize], env.keys[row(right) as usize]);
                                if env.bad == Some(a) || env.bad == Some(b) {
                                    (*run).detail = [row(left).into(), row(right).into()];
                                    (*run).fail(Status::Overflow, "as asked");
                                    return 7;
                                }
                                (env.greater)(a, b)
                            };
                        let next = if from_right { &mut right } else { &mut left };
                        to.add(out as usize).write(row(*next));
                        *next += 1;
                    }
                    if width * 2 >= order.until {
                        (order.left, order.right) = (left - start, right - middle);
                    }
                }
                width *= 2;
                (from, to) = (to, from.cast_mut());
            }
        }
        0
    }

    #[derive(Clone, Copy, Debug)]
    enum On {
        Pool(usize),
        NewThreads,
    }

    /// The status, the order of the rows, and where the first failure was.
    fn run(on: On, env: &Env, grain: u64) -> (u32, Vec<u32>, [u64; 2]) {
        let mut run = Run::new(Arc::new(Context::unlimited()));
        let count = env.keys.len();
        let (mut a, mut b) = (vec![0u32; count], vec![0u32; count]);
        let mut task = Sort {
            passes,
            env: (&raw const *env).cast(),
            region: run.region(0),
            numbers: a.as_mut_ptr(),
            spare: b.as_mut_ptr(),
            count: count as u64,
            grain,
        };
        // SAFETY: the function is the one for `Env`, there is room for the rows.
        unsafe {
            let status = match on {
                On::Pool(threads) => {
                    run.set_threads(Some(Threads::shared(threads)));
                    sort(&mut *run, &mut task)
                }
                On::NewThreads => task.sort_shared(&mut *run, 4, |sorting| {
                    sorting.sort(&|a, b| {
                        std::thread::scope(|scope| {
                            let other = scope.spawn(a);
                            b();
                            other.join().expect("nothing panics");
                        })
                    });
                }),
            };
            (status, std::slice::from_raw_parts(task.numbers, count).to_vec(), run.detail)
        }
    }

    fn keys(count: u32, distinct: u32) -> Vec<u32> {
        (0..count).map(|i| i.wrapping_mul(2_654_435_761) % distinct).collect()
    }

    fn pools() -> impl Iterator<Item = (On, u64)> + Clone {
        [1, 2, 3, 4].into_iter().flat_map(|threads| [1, 3, 64].map(|grain| (On::Pool(threads), grain)))
    }

    fn new_threads() -> impl Iterator<Item = (On, u64)> + Clone {
        [16, 64].into_iter().map(|grain| (On::NewThreads, grain))
    }

    fn stable(ways: impl Iterator<Item = (On, u64)> + Clone) {
        for count in [0, 1, 2, 3, 7, 31, 32, 33, 100, 1000, 4097] {
            let env = Env { keys: keys(count, 1 + count / 3), greater: |a, b| a.cmp(&b) == Greater, bad: None };
            let mut expected: Vec<u32> = (0..count).collect();
            expected.sort_by_key(|row| env.keys[*row as usize]);
            for (on, grain) in ways.clone() {
                assert_eq!(run(on, &env, grain).1, expected, "{on:?} {grain} {count}");
            }
        }
    }

    fn no_order_gives_the_same_on_any_threads(ways: impl Iterator<Item = (On, u64)> + Clone) {
        for greater in [|_, _| true, |a: u32, b: u32| (a ^ b) % 3 == 1] {
            let env = Env { keys: keys(3001, 77), greater, bad: None };
            let expected = run(On::Pool(1), &env, 1).1;
            for (on, grain) in ways.clone() {
                assert_eq!(run(on, &env, grain).1, expected, "{on:?} {grain}");
            }
        }
    }

    fn a_failure_is_the_one_of_a_single_thread(ways: impl Iterator<Item = (On, u64)> + Clone) {
        let env = Env { keys: keys(2000, 2000), greater: |a, b| a > b, bad: Some(1234) };
        let (status, _, expected) = run(On::Pool(1), &env, 1);
        assert_eq!(status, 7);
        for (on, grain) in ways {
            let (status, _, detail) = run(on, &env, grain);
            assert_eq!((status, detail), (7, expected), "{on:?} {grain}");
        }
    }

    #[test]
    fn on_pools() {
        stable(pools());
        no_order_gives_the_same_on_any_threads(pools());
        a_failure_is_the_one_of_a_single_thread(pools());
    }

    #[test]
    fn on_new_threads() {
        stable(new_threads());
        no_order_gives_the_same_on_any_threads(new_threads());
        a_failure_is_the_one_of_a_single_thread(new_threads());
    }
}
