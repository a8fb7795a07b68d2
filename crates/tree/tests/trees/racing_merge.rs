//! A lock-free reader beside a merge of the last two leaves, or of two of which the left one is empty,
//! stopped in every combination of two
//! places in the writer and one in the reader. The leaf that loses its sibling then has no upper
//! bound; what is read of its header in two pieces must not lead a reader astray.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use everleaf_pmem::schedule::{Point, set_hook};
use everleaf_pmem::{Geometry, Sim};
use everleaf_tree::{FastFair, INDEX_ANCHOR, Index, Reading};

const WRITER: usize = 0;
const READER: usize = 1;

/// Whose turn it is, and who has ended.
static TURN: AtomicUsize = AtomicUsize::new(WRITER);
static ENDED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];
/// Before which access each gives the turn away: the writer's first and second, the reader's.
static STOPS: [AtomicUsize; 3] = [AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)];

thread_local!(static ACCESSES: Cell<usize> = const { Cell::new(0) });

fn wait_for_turn(me: usize) {
    while TURN.load(SeqCst) != me && !ENDED[1 - me].load(SeqCst) {
        std::thread::yield_now();
    }
}

fn give_way(me: usize) {
    if !ENDED[1 - me].load(SeqCst) {
        TURN.store(1 - me, SeqCst);
        wait_for_turn(me);
    }
}

fn step(me: usize, point: Point, counts: bool, stops: &[AtomicUsize]) {
    if point == Point::Pause {
        return give_way(me);
    }
    if counts {
        let n = ACCESSES.get() + 1;
        ACCESSES.set(n);
        if stops.iter().any(|stop| stop.load(SeqCst) == n) {
            give_way(me);
        }
    }
}

fn writer_step(point: Point) {
    step(WRITER, point, point == Point::Write, &STOPS[..2]);
}

fn reader_step(point: Point) {
    step(READER, point, true, &STOPS[2..]);
}

/// The other side goes on when this one ends, however it does.
struct End(usize);

impl Drop for End {
    fn drop(&mut self) {
        set_hook(None);
        ENDED[self.0].store(true, SeqCst);
    }
}

/// Runs one side to its end, and answers its accesses.
fn run(me: usize, hook: fn(Point), work: impl FnOnce()) -> usize {
    let _end = End(me);
    wait_for_turn(me);
    ACCESSES.set(0);
    set_hook(Some(hook));
    work();
    ACCESSES.get()
}

/// A tree whose last leaf but one merges with the last one when a key goes, or with the one before it
/// if that is empty, and a reader of the key beside it. `taken`
/// pages have other owners, so that the leaves lie in the first group of pages or in the second:
/// the step that frees a page latches the map page of its group. Answers the accesses of both.
fn merge_beside_reader(taken: u32, empty: bool, stops: [usize; 3]) -> (usize, usize) {
    let sim = Sim::new(Geometry::new(4).expect("valid"), 200).expect("memory");
    let pool = Arc::new(FastFair::format_pool(sim).expect("formats"));
    let tree = FastFair::create(Arc::clone(&pool), INDEX_ANCHOR).expect("space");
    (0..taken).for_each(|_| {
        FastFair::<Sim>::new_anchor(&pool).expect("space");
    });
    let first = 1 << 63;
    for i in 0..4 {
        tree.insert(first + i, i).expect("space");
    }
    // A full first leaf takes nothing in.
    (0..if empty { 0 } else { 3 }).for_each(|i| {
        tree.insert(i, i).expect("space");
    });
    let tree = tree.reading(Reading::LockFree).expect("linear nodes");
    for (stop, at) in STOPS.iter().zip(stops) {
        stop.store(at, SeqCst);
    }
    ENDED.iter().for_each(|ended| ended.store(false, SeqCst));
    TURN.store(WRITER, SeqCst);
    std::thread::scope(|scope| {
        let tree = &tree;
        let writer = scope.spawn(move || {
            run(WRITER, writer_step, || {
                assert_eq!(Index::remove(tree, first).expect("memory"), Some(0));
            })
        });
        let reader = scope.spawn(move || {
            run(READER, reader_step, || {
                assert_eq!(Index::get(tree, first + 1).expect("no damage"), Some(1), "{stops:?}");
            })
        });
        (writer.join().expect("no panic"), reader.join().expect("no panic"))
    })
}

/// Answers how many runs there were.
fn stop_everywhere(taken: u32, empty: bool, step: usize) -> u64 {
    let (writes, reads) = merge_beside_reader(taken, empty, [usize::MAX; 3]);
    let mut runs = 0;
    for first in 8..34.min(writes) {
        for second in first + 1..(first + 10).min(writes) {
            for read in (1..reads + 90).step_by(step) {
                merge_beside_reader(taken, empty, [first, second, read]);
                runs += 1;
            }
        }
    }
    println!("{runs} runs, {writes} accesses of the writer that are no reads, {reads} reads");
    runs
}

#[test]
fn a_reader_beside_a_merge_finds_its_key() {
    for (taken, empty, step, least) in
        [(70, false, 1, 10_000), (0, false, 1, 10_000), (0, true, 3, 3000)]
    {
        let runs = stop_everywhere(taken, empty, step);
        assert!(runs > least, "{runs}");
    }
}
