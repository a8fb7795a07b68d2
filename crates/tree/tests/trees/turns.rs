//! A writer and a reader that take turns, so that each can be stopped before any access: a test that tries all places has
//! seen all that a reader can meet between them.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use everleaf_pmem::schedule::{Point, set_hook};

const WRITER: usize = 0;
const READER: usize = 1;

/// Whose turn it is, and who has ended.
struct Turns {
    turn: AtomicUsize,
    ended: [AtomicBool; 2],
    /// Before which access each gives the turn away: the writer's first and second, the reader's.
    stops: [usize; 3],
}

impl Turns {
    fn wait(&self, me: usize) {
        while self.turn.load(SeqCst) != me && !self.ended[1 - me].load(SeqCst) {
            std::thread::yield_now();
        }
    }

    fn give_away(&self, me: usize) {
        if !self.ended[1 - me].load(SeqCst) {
            self.turn.store(1 - me, SeqCst);
            self.wait(me);
        }
    }

    fn stops(&self, me: usize) -> &[usize] {
        if me == WRITER { &self.stops[..2] } else { &self.stops[2..] }
    }
}

/// The side that this thread is.
struct Side {
    turns: Arc<Turns>,
    me: usize,
    accesses: usize,
}

thread_local!(static SIDE: RefCell<Option<Side>> = const { RefCell::new(None) });

impl Side {
    /// Whether it gives its turn away before this access. Of a writer, those count that are no reads.
    fn stops_before(&mut self, point: Point) -> bool {
        if point == Point::Pause {
            return true;
        }
        if self.me == WRITER && point != Point::Write {
            return false;
        }
        self.accesses += 1;
        self.turns.stops(self.me).contains(&self.accesses)
    }
}

fn step(point: Point) {
    let gives = SIDE.with_borrow_mut(|side| {
        let side = side.as_mut()?;
        side.stops_before(point).then(|| (Arc::clone(&side.turns), side.me))
    });
    if let Some((turns, me)) = gives {
        turns.give_away(me);
    }
}

/// The other side goes on when this one ends, however it does.
struct End(Arc<Turns>, usize);

impl Drop for End {
    fn drop(&mut self) {
        set_hook(None);
        self.0.ended[self.1].store(true, SeqCst);
    }
}

/// Runs one side to its end, and answers its accesses.
fn run(turns: &Arc<Turns>, me: usize, work: impl FnOnce()) -> usize {
    let _end = End(Arc::clone(turns), me);
    turns.wait(me);
    SIDE.set(Some(Side { turns: Arc::clone(turns), me, accesses: 0 }));
    set_hook(Some(step));
    work();
    SIDE.take().expect("it was set").accesses
}

/// Runs a writer and a reader, which give their turns away before these accesses: the writer twice, the reader once.
/// Answers how many accesses each had, the writer's reads left out.
pub fn beside(
    stops: [usize; 3],
    write: impl FnOnce() + Send,
    read: impl FnOnce() + Send,
) -> (usize, usize) {
    let ended = [AtomicBool::new(false), AtomicBool::new(false)];
    let turns = Arc::new(Turns { turn: AtomicUsize::new(WRITER), ended, stops });
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| run(&turns, WRITER, write));
        let reader = scope.spawn(|| run(&turns, READER, read));
        (writer.join().expect("no panic"), reader.join().expect("no panic"))
    })
}
