//! The front door: says of a structure that one thread uses whether it is *durable*: after any power
//! cut recovery finds the state before or after the operation in flight, and nothing that was
//! answered is missing.
//!
//! The caller says how the structure is opened on a medium, what its operations are, and how its
//! state is read; the states that it should have come from a run without a crash. For structures
//! that promise something else, or that threads share, see [`Explorer`], [`epochs`](crate::epochs)
//! and [`history`](crate::history).

use std::cell::Cell;
use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use everleaf_pmem::{Counts, Geometry, PageNo, Sim};

use crate::exploration::panic_text;
use crate::failure::{Coverage, Failure};
use crate::mutant::{Mutate, Mutation, SharedMedium};
use crate::settings::Explorer;
use crate::trace::{CrashPoint, Recording, Trace};

/// The medium that a structure is given while it is checked. It behaves as memory.
pub type Tested = SharedMedium<Mutate<SharedMedium<Sim>>>;

/// Characters of a state in a message.
const SHOWN: usize = 300;

/// Runs `ops` on a structure and recovers it from each legal crash image, as
/// [`Durable::check`] does with the default settings.
///
/// - `geometry`, `pages`: a medium of so many pages, all zero at the start.
/// - `ops`: the operations, done one after the other. With an empty list only the first `open` is
///   crashed.
/// - `open`: makes the structure on an empty medium and opens it on any other. This is its recovery,
///   and is crashed, too. A panic refuses the image.
/// - `apply`: does an operation; when it returns, the operation has been answered. It must depend on
///   nothing but the operation and the state.
/// - `read`: returns the whole state. If two states differ, what it returns must differ.
///
/// ```
/// use everleaf_crash_check::durable;
/// use everleaf_pmem::{Geometry, Medium};
/// // A word that is overwritten in place, flushed, and fenced before the answer.
/// let stats = durable(
///     Geometry::new(4).unwrap(),
///     1,
///     1..=3u64,
///     |medium| medium,
///     |medium, value| {
///         let page = medium.page(0).unwrap();
///         medium.store(page.body(0), *value);
///         medium.flush(page, page.line_of(0));
///         medium.fence();
///     },
///     |medium| medium.page(0).unwrap().body(0).load(),
/// )?;
/// assert!(stats.is_exhaustive());
/// # Ok::<(), Box<everleaf_crash_check::Failure>>(())
/// ```
///
/// # Errors
/// The first image that was refused.
///
/// # Panics
/// If the structure does not do the same twice when nothing crashes, or panics then.
pub fn durable<O: Debug, T, S: PartialEq + Debug>(
    geometry: Geometry,
    pages: PageNo,
    ops: impl IntoIterator<Item = O>,
    open: impl Fn(Tested) -> T,
    apply: impl Fn(&mut T, &O),
    read: impl Fn(&T) -> S,
) -> Result<Coverage, Box<Failure>> {
    Durable::new(geometry, pages, ops, open, apply, read).check()
}

/// A structure and a workload, ready to be checked; the parameters are those of [`durable`].
///
/// ```
/// use everleaf_crash_check::{Durable, Explorer};
/// use everleaf_pmem::{Geometry, Medium};
/// let word = Durable::new(
///     Geometry::new(4).unwrap(),
///     1,
///     [7u64, 8],
///     |medium| medium,
///     |medium, value| {
///         let page = medium.page(0).unwrap();
///         medium.store(page.body(0), *value);
///         medium.flush(page, page.line_of(0)); // but no fence
///     },
///     |medium| medium.page(0).unwrap().body(0).load(),
/// )
/// .explorer(Explorer::new().depth(1));
/// let failure = word.check().unwrap_err();
/// assert!(failure.to_string().contains("after operation 0, 7, had answered: found 0"));
/// assert!(failure.to_string().contains("lost: body word 0 := 7"));
/// assert!(word.replay(&failure).is_err());
/// ```
pub struct Durable<O, Open, Apply, Read> {
    geometry: Geometry,
    pages: PageNo,
    ops: Vec<O>,
    open: Open,
    apply: Apply,
    read: Read,
    explorer: Explorer,
    then: usize,
}

impl<O: Debug, Open, Apply, Read> Debug for Durable<O, Open, Apply, Read> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {} pages, {:?}", self.ops, self.pages, self.explorer)
    }
}

/// A run without a crash: what the structure held before the first and after each operation, and
/// how much had passed the door by then.
struct CrashFreeRun<S> {
    states: Vec<S>,
    calls: Vec<Counts>,
}

impl<O, T, S, Open, Apply, Read> Durable<O, Open, Apply, Read>
where
    O: Debug,
    S: PartialEq + Debug,
    Open: Fn(Tested) -> T,
    Apply: Fn(&mut T, &O),
    Read: Fn(&T) -> S,
{
    /// The structure and what is done to it; see [`durable`].
    pub fn new(
        geometry: Geometry,
        pages: PageNo,
        ops: impl IntoIterator<Item = O>,
        open: Open,
        apply: Apply,
        read: Read,
    ) -> Self {
        let ops = ops.into_iter().collect();
        Self { geometry, pages, ops, open, apply, read, explorer: Explorer::new(), then: 2 }
    }

    /// How images are chosen and how deep crashes inside recovery go; the default is
    /// [`Explorer::new`].
    pub fn explorer(mut self, explorer: Explorer) -> Self {
        self.explorer = explorer;
        self
    }

    /// How many of the operations that come next are done on what was recovered, and must lead to
    /// what they lead to without a crash: finds what recovery has left in a state that reads well and
    /// cannot be used. 2 by default.
    pub fn then(mut self, ops: usize) -> Self {
        self.then = ops;
        self
    }

    /// Recovers each legal crash image of the workload and of recovery itself.
    ///
    /// # Errors
    /// The first image that was refused.
    ///
    /// # Panics
    /// If the structure does not do the same twice when nothing crashes, or panics then.
    pub fn check(&self) -> Result<Coverage, Box<Failure>> {
        let plain = self.plain();
        self.explore(&self.sound_record(&plain), &plain, &Cell::default())
    }

    /// Runs the one image of a failure of [`check`](Self::check) again, to be looked at in a
    /// debugger or with more output.
    ///
    /// # Errors
    /// The failure, if it still happens.
    ///
    /// # Panics
    /// As [`check`](Self::check), and if the failure is not one of this structure and workload as
    /// they are: after a repair, [`check`](Self::check) again.
    pub fn replay(&self, failure: &Failure) -> Result<(), Box<Failure>> {
        let plain = self.plain();
        let record = self.sound_record(&plain);
        let counts = Cell::default();
        let recover = |sim: &Arc<Sim>| Ok(self.recover(sim, None, &counts));
        self.explorer.replay(&record, &failure.crashes, recover, |found, _, crash| {
            self.verify(found, crash, &plain.states, self.then)
        })
    }

    /// Checks the structure again and again with one flush, fence or store left out, or two stores
    /// swapped: each of them in the workload, and the same in every recovery. A call whose fault nobody
    /// notices is not needed, or the workload does not show what it is for.
    ///
    /// # Panics
    /// As [`check`](Self::check), and if the structure does not pass without a fault.
    pub fn mutants(&self) -> Mutants {
        let (plain, recovery) = self.sound_run();
        let in_workload = Mutation::each(*plain.calls.last().expect("the open's at least"));
        let mut all: Vec<Mutant> =
            in_workload.map(|fault| self.mutant_of_workload(fault, &plain)).collect();
        all.extend(Mutation::each(recovery).map(|fault| {
            let noticed = self.mutant_of_recovery(fault, &plain).err();
            Mutant { fault, within: "each recovery".into(), of_op: None, noticed }
        }));
        Mutants { all }
    }

    /// The same with the flushes and fences of the operations only: what each of them is needed for. A structure
    /// whose loops do not end without one of its stores can be asked for these.
    ///
    /// # Panics
    /// As [`mutants`](Self::mutants).
    pub fn write_backs(&self) -> Mutants {
        let (plain, _) = self.sound_run();
        let (first, last) = (plain.calls[0], *plain.calls.last().expect("the open's at least"));
        let flushes = (first.flushes..last.flushes).map(Mutation::DropFlush);
        let fences = (first.fences..last.fences).map(Mutation::DropFence);
        let all = flushes.chain(fences).map(|fault| self.mutant_of_workload(fault, &plain));
        Mutants { all: all.collect() }
    }

    /// The structure without a fault, which must pass, and the most that one of its recoveries calls.
    fn sound_run(&self) -> (CrashFreeRun<S>, Counts) {
        let plain = self.plain();
        let recovery = Cell::default();
        let sound = self.explore(&self.sound_record(&plain), &plain, &recovery);
        sound.unwrap_or_else(|failure| panic!("it fails without a fault: {failure}"));
        (plain, recovery.get())
    }

    fn mutant_of_workload(&self, fault: Mutation, plain: &CrashFreeRun<S>) -> Mutant {
        let of_op = of_op(fault, &plain.calls);
        let within = match &of_op {
            Some(OfOp { op, .. }) => format!("operation {op}, {:?}", self.ops[*op]),
            None => "the first open".into(),
        };
        Mutant { fault, within, of_op, noticed: self.mutant(fault, plain).err() }
    }

    fn medium(&self, fault: Option<Mutation>) -> (Arc<Sim>, Arc<Mutate<SharedMedium<Sim>>>) {
        let sim = Arc::new(Sim::new(self.geometry, self.pages).expect("memory for the medium"));
        let medium = Arc::new(Mutate::new(SharedMedium::new(&sim), fault));
        (sim, medium)
    }

    fn plain(&self) -> CrashFreeRun<S> {
        let (_, medium) = self.medium(None);
        let mut it = (self.open)(SharedMedium::new(&medium));
        let mut plain =
            CrashFreeRun { states: vec![(self.read)(&it)], calls: vec![medium.counts()] };
        for op in &self.ops {
            (self.apply)(&mut it, op);
            plain.states.push((self.read)(&it));
            plain.calls.push(medium.counts());
        }
        plain
    }

    /// The workload as the checker sees it: states are not read in between, since reading may mend
    /// what an operation forgot. Answers also what the structure holds in the end.
    fn record(&self, fault: Option<Mutation>) -> (Recording, S) {
        let (sim, medium) = self.medium(fault);
        let trace = Trace::new(&sim);
        let mut it = (self.open)(SharedMedium::new(&medium));
        for (id, op) in (0..).zip(&self.ops) {
            trace.op(id, || (self.apply)(&mut it, op));
        }
        (trace.finish(), (self.read)(&it))
    }

    fn sound_record(&self, plain: &CrashFreeRun<S>) -> Recording {
        let (record, end) = self.record(None);
        let expected = plain.states.last().expect("the first at least");
        assert!(end == *expected, "two runs without a crash: {end:?} and {expected:?}");
        record
    }

    fn recover(&self, sim: &Arc<Sim>, fault: Option<Mutation>, most: &Cell<Counts>) -> (T, S) {
        let medium = Arc::new(Mutate::new(SharedMedium::new(sim), fault));
        let it = (self.open)(SharedMedium::new(&medium));
        let found = (self.read)(&it);
        let (now, so_far) = (medium.counts(), most.get());
        most.set(Counts {
            stores: now.stores.max(so_far.stores),
            flushes: now.flushes.max(so_far.flushes),
            fences: now.fences.max(so_far.fences),
        });
        (it, found)
    }

    fn explore(
        &self,
        record: &Recording,
        plain: &CrashFreeRun<S>,
        most: &Cell<Counts>,
    ) -> Result<Coverage, Box<Failure>> {
        let recover = |sim: &Arc<Sim>| Ok(self.recover(sim, None, most));
        self.explorer.explore(record, recover, |found, _, crash| {
            self.verify(found, crash, &plain.states, self.then)
        })
    }

    fn verify(
        &self,
        (mut it, found): (T, S),
        crash: &CrashPoint<'_>,
        states: &[S],
        then: usize,
    ) -> Result<(), String> {
        let (done, begun) = (crash.responded().len(), crash.invoked().len());
        debug_assert!(begun <= done + 1, "one thread has one operation in flight");
        debug_assert_eq!(
            states.len(),
            self.ops.len() + 1,
            "a state before and after each operation"
        );
        let at = if found == states[begun] { begun } else { done };
        if found != states[at] {
            let or =
                if begun > done { format!(" or {}", short(&states[begun])) } else { String::new() };
            let (when, expected) = (self.moment(done, begun), short(&states[done]));
            return Err(format!("{when}: found {}, expected {expected}{or}", short(&found)));
        }
        for (op, i) in self.ops[at..].iter().zip(at..).take(then) {
            (self.apply)(&mut it, op);
            let (now, expected) = ((self.read)(&it), &states[i + 1]);
            if now != *expected {
                return Err(format!(
                    "what was recovered reads well, but then operation {i}, {op:?}, leads to {}, \
                     expected {}",
                    short(&now),
                    short(expected)
                ));
            }
        }
        Ok(())
    }

    fn moment(&self, done: usize, begun: usize) -> String {
        if begun > done {
            return format!("with operation {done}, {:?}, in flight", self.ops[done]);
        }
        match done.checked_sub(1) {
            Some(last) => format!("after operation {last}, {:?}, had answered", self.ops[last]),
            None => "before the first operation".into(),
        }
    }

    /// A workload with a fault must be refused.
    fn mutant(&self, fault: Mutation, plain: &CrashFreeRun<S>) -> Result<(), String> {
        let ran = catch_unwind(AssertUnwindSafe(|| self.record(Some(fault))));
        let (record, end) = ran.map_err(|panic| format!("panic: {}", panic_text(&*panic)))?;
        let expected = plain.states.last().expect("the first at least");
        if end != *expected {
            return Err(format!("in the end {}, expected {}", short(&end), short(expected)));
        }
        let explored = self.explore(&record, plain, &Cell::default());
        explored.map(drop).map_err(|failure| failure.message)
    }

    /// Every recovery of the sound workload has the fault. Later operations would not have it, so none
    /// is run.
    fn mutant_of_recovery(&self, fault: Mutation, plain: &CrashFreeRun<S>) -> Result<(), String> {
        let most = Cell::default();
        let recover = |sim: &Arc<Sim>| Ok(self.recover(sim, Some(fault), &most));
        let (record, _) = self.record(None);
        let explored = self.explorer.explore(&record, recover, |found, _, crash| {
            self.verify(found, crash, &plain.states, 0)
        });
        explored.map(drop).map_err(|failure| failure.message)
    }
}

/// The operation of the workload that a fault strikes; `calls` are those before each operation.
fn of_op(fault: Mutation, calls: &[Counts]) -> Option<OfOp> {
    let (k, number): (u64, fn(&Counts) -> u64) = match fault {
        Mutation::DropFlush(k) => (k, |counts| counts.flushes),
        Mutation::DropFence(k) => (k, |counts| counts.fences),
        Mutation::SwapStores(k) | Mutation::DropStore(k) => (k, |counts| counts.stores),
    };
    let op = calls.partition_point(|counts| number(counts) <= k).checked_sub(1)?;
    let (first, after) = (number(&calls[op]), calls.get(op + 1).map(number)?);
    Some(OfOp { op, nth: k - first, of: after - first })
}

/// A state in a message: not longer than a few lines.
fn short(state: &impl Debug) -> String {
    let text = format!("{state:?}");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// One fault of [`Durable::mutants`].
#[derive(Debug, Clone)]
pub struct Mutant {
    /// The call that was left out, or the stores that were swapped; calls are numbered over the whole
    /// workload, or from the start of each recovery.
    pub fault: Mutation,
    /// The part of the run that it strikes, in words.
    pub within: String,
    /// Which call it strikes of which operation; none in the first open and in recoveries.
    pub of_op: Option<OfOp>,
    /// The checker's message; none if it noticed nothing.
    pub noticed: Option<String>,
}

/// A call within an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfOp {
    /// The operation, from 0.
    pub op: usize,
    /// Which of its calls of that kind, from 0.
    pub nth: u64,
    /// How many calls of that kind it has.
    pub of: u64,
}

/// The findings of [`Durable::mutants`].
#[derive(Debug, Clone, Default)]
pub struct Mutants {
    /// All of them, those of the workload first.
    pub all: Vec<Mutant>,
}

impl Mutants {
    /// Those that nobody noticed.
    pub fn survivors(&self) -> impl Iterator<Item = &Mutant> {
        self.all.iter().filter(|mutant| mutant.noticed.is_none())
    }
}

impl fmt::Display for Mutants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (survived, all) = (self.survivors().count(), self.all.len());
        write!(f, "{} of {all} mutants killed", all - survived)?;
        self.survivors().try_for_each(|m| write!(f, "\n  survived: {} in {}", m.fault, m.within))
    }
}
