//! Histories of maps: which operations threads called, what they were answered, and whether one
//! order of them explains that (*linearizability*, Herlihy and Wing 1990), also after a power cut
//! (*durable linearizability*, Izraelevitz et al., DISC 2016: what is recovered is a state after all
//! operations that had answered; those in flight may have happened or not).
//!
//! Each operation is about one key and answers the value that the key had before, so keys are
//! looked at one by one: a history is linearizable if it is for each key. The search for an order is
//! that of Wing and Gong (1993), and no pair of operations done and value is visited twice (Lowe
//! 2017).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use everleaf_pmem::Result;
use everleaf_pmem::sim::Event;

use crate::index::Index;
use crate::trace::{Recording, invoke_mark, respond_mark};

/// An operation on one key. Each answers the value that the key had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapOp {
    /// Reads the key.
    Get(u64),
    /// Sets the key's value.
    Insert(u64, u64),
    /// Sets the key's value if it has one.
    Update(u64, u64),
    /// Removes the key.
    Remove(u64),
}

impl MapOp {
    /// The key.
    pub fn key(self) -> u64 {
        let (MapOp::Get(key) | MapOp::Insert(key, _) | MapOp::Update(key, _) | MapOp::Remove(key)) =
            self;
        key
    }

    /// The key's value after the operation.
    pub fn after(self, before: Option<u64>) -> Option<u64> {
        match self {
            MapOp::Get(_) => before,
            MapOp::Insert(_, value) => Some(value),
            MapOp::Update(_, value) => before.map(|_| value),
            MapOp::Remove(_) => None,
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// Those of the index.
    pub fn run(self, index: &(impl Index + ?Sized)) -> Result<Option<u64>> {
        match self {
            MapOp::Get(key) => index.get(key),
            MapOp::Insert(key, value) => index.insert(key, value),
            MapOp::Update(key, value) => index.update(key, value),
            MapOp::Remove(key) => index.remove(key),
        }
    }
}

/// An operation in a history. Moments are positions in a record, or any other numbers in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpInterval {
    /// The operation that was asked for.
    pub op: MapOp,
    /// When.
    pub invoked: usize,
    /// When it was answered, and what; `None` while it runs.
    pub response: Option<(usize, Option<u64>)>,
}

impl fmt::Display for OpInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpInterval { op, invoked, response } = self;
        match response {
            Some((at, answer)) => write!(f, "{invoked}..{at} {op:?} = {answer:?}"),
            None => write!(f, "{invoked}.. {op:?}"),
        }
    }
}

/// The operations of threads on a map.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The map before.
    pub initial: BTreeMap<u64, u64>,
    /// The operations, in any order.
    pub calls: Vec<OpInterval>,
}

impl History {
    /// The history that a [`Trace`](crate::Trace) recorded. `answers` says which operation a number
    /// stands for and what it was answered; a number may stand for several at once, as a scan does
    /// that reads many keys. Numbers that the record does not have are left out.
    pub fn new(
        initial: &[(u64, u64)],
        record: &Recording,
        answers: impl IntoIterator<Item = (u64, MapOp, Option<u64>)>,
    ) -> Self {
        let marks = record.events.iter().enumerate().filter_map(|(at, event)| match *event {
            Event::Mark { mark, .. } => Some((mark, at)),
            _ => None,
        });
        let marks: BTreeMap<u64, usize> = marks.collect();
        let call = |(id, op, answer)| {
            let invoked = *marks.get(&invoke_mark(id))?;
            let response = marks.get(&respond_mark(id)).map(|&at| (at, answer));
            Some(OpInterval { op, invoked, response })
        };
        let calls = answers.into_iter().filter_map(call).collect();
        Self { initial: initial.iter().copied().collect(), calls }
    }

    /// The history before a moment. Operations that answer at that moment or later are in flight.
    pub fn cut(&self, at: usize) -> Self {
        let before = |call: &OpInterval| OpInterval {
            response: call.response.filter(|r| r.0 < at),
            ..*call
        };
        let calls = self.calls.iter().filter(|call| call.invoked < at).map(before).collect();
        Self { initial: self.initial.clone(), calls }
    }

    /// The history without its reads, for maps whose reads may return what is not durable yet and what
    /// a crash takes back.
    pub fn without_reads(mut self) -> Self {
        self.calls.retain(|call| !matches!(call.op, MapOp::Get(_)));
        self
    }

    /// All states that the map may be in at the end. Exponential in the operations of a key that
    /// overlap; at most 64 operations of one key.
    ///
    /// # Errors
    /// The operations of a key whose answers no order explains.
    ///
    /// # Panics
    /// If one key has more operations than that.
    pub fn outcomes(&self) -> std::result::Result<Outcomes, String> {
        let mut by_key: BTreeMap<u64, Vec<OpInterval>> = BTreeMap::new();
        for call in &self.calls {
            debug_assert!(
                call.response.is_none_or(|(at, _)| at >= call.invoked),
                "{call}: the answer comes after the call"
            );
            by_key.entry(call.op.key()).or_default().push(*call);
        }
        let mut touched = BTreeMap::new();
        for (key, calls) in by_key {
            let start = self.initial.get(&key).copied();
            let ends = ends(start, &calls);
            if ends.is_empty() {
                let what = "no order explains the answers";
                return Err(format!("key {key}: {what}{}", listed(start, &calls)));
            }
            touched.insert(key, Ends { start, calls, ends });
        }
        Ok(Outcomes { initial: self.initial.clone(), touched })
    }
}

/// Whether a history is linearizable and, if a power cut ended it, what was recovered is durable
/// linearizability's: a state after everything that had answered.
///
/// # Errors
/// The key that is wrong, with its operations.
pub fn linearizable(
    history: &History,
    recovered: Option<&[(u64, u64)]>,
) -> std::result::Result<(), String> {
    let outcomes = history.outcomes()?;
    recovered.map_or(Ok(()), |entries| outcomes.admit(entries))
}

/// A key that operations touched: what it may hold in the end.
#[derive(Debug, Clone)]
struct Ends {
    start: Option<u64>,
    calls: Vec<OpInterval>,
    ends: BTreeSet<Option<u64>>,
}

/// The states that a map may be in after a history.
#[derive(Debug, Clone)]
pub struct Outcomes {
    initial: BTreeMap<u64, u64>,
    touched: BTreeMap<u64, Ends>,
}

impl Outcomes {
    /// Whether these entries are one of the states.
    ///
    /// # Errors
    /// A key that has another value than it may have.
    pub fn admit(&self, entries: &[(u64, u64)]) -> std::result::Result<(), String> {
        let found: BTreeMap<u64, u64> = entries.iter().copied().collect();
        for (key, Ends { start, calls, ends }) in &self.touched {
            let value = found.get(key).copied();
            if !ends.contains(&value) {
                let listed = listed(*start, calls);
                return Err(format!("key {key} is {value:?}, not one of {ends:?}{listed}"));
            }
        }
        let keys: BTreeSet<u64> = found.keys().chain(self.initial.keys()).copied().collect();
        let strange = keys
            .into_iter()
            .find(|key| !self.touched.contains_key(key) && found.get(key) != self.initial.get(key));
        strange.map_or(Ok(()), |key| {
            let (was, is) = (self.initial.get(&key), found.get(&key));
            Err(format!("key {key} was {was:?} and is {is:?}, though nobody asked for that"))
        })
    }
}

fn listed(start: Option<u64>, calls: &[OpInterval]) -> String {
    let lines: Vec<String> = calls.iter().map(|call| format!("\n    {call}")).collect();
    format!("; it was {start:?}, and then{}", lines.concat())
}

/// The values that a key may have after its calls; none if no order explains the answers.
fn ends(start: Option<u64>, calls: &[OpInterval]) -> BTreeSet<Option<u64>> {
    assert!(calls.len() <= 64, "{} operations of one key", calls.len());
    let answered: u64 = bits(calls, |call| call.response.is_some());
    let (mut ends, mut seen) = (BTreeSet::new(), HashSet::from([(0u64, start)]));
    let mut open = vec![(0u64, start)];
    while let Some((done, value)) = open.pop() {
        if answered & !done == 0 {
            ends.insert(value);
        }
        // Every call that had answered before another began comes before that one.
        let waiting = calls.iter().zip(0..).filter(|(_, i)| done >> i & 1 == 0);
        let first = waiting.clone().filter_map(|(c, _)| c.response).map(|r| r.0).min();
        for (call, i) in waiting {
            let is_next = first.is_none_or(|first| call.invoked < first);
            let explained = call.response.is_none_or(|(_, answer)| answer == value);
            let next = (done | 1 << i, call.op.after(value));
            if is_next && explained && seen.insert(next) {
                open.push(next);
            }
        }
    }
    ends
}

fn bits(calls: &[OpInterval], of: impl Fn(&OpInterval) -> bool) -> u64 {
    calls.iter().zip(0..).filter(|(call, _)| of(call)).fold(0, |all, (_, i)| all | 1 << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(op: MapOp, invoked: usize, responded: usize, answer: Option<u64>) -> OpInterval {
        OpInterval { op, invoked, response: Some((responded, answer)) }
    }
    fn pending(op: MapOp, invoked: usize) -> OpInterval {
        OpInterval { op, invoked, response: None }
    }
    fn history(initial: &[(u64, u64)], calls: &[OpInterval]) -> History {
        History { initial: initial.iter().copied().collect(), calls: calls.to_vec() }
    }
    fn admits(history: &History, found: &[(u64, u64)]) -> bool {
        linearizable(history, Some(found)).is_ok()
    }

    #[test]
    fn operations_that_overlap_may_come_in_any_order() {
        let (a, b) = (MapOp::Insert(1, 10), MapOp::Insert(1, 20));
        let one = history(&[], &[call(a, 0, 9, None), call(b, 1, 8, Some(10))]);
        assert!(admits(&one, &[(1, 20)]) && !admits(&one, &[(1, 10)]));
        let other = history(&[], &[call(a, 0, 9, Some(20)), call(b, 1, 8, None)]);
        assert!(admits(&other, &[(1, 10)]));
        let both_first = history(&[], &[call(a, 0, 9, None), call(b, 1, 8, None)]);
        assert!(linearizable(&both_first, None).is_err());
    }

    #[test]
    fn operations_that_do_not_overlap_keep_their_order() {
        let stale = [call(MapOp::Insert(1, 10), 0, 1, None), call(MapOp::Get(1), 2, 3, None)];
        let error = linearizable(&history(&[], &stale), None).expect_err("a stale read");
        assert!(error.contains("2..3 Get(1) = None"), "{error}");
        let late = [call(MapOp::Insert(1, 10), 0, 3, None), call(MapOp::Get(1), 2, 4, None)];
        assert!(linearizable(&history(&[], &late), None).is_ok());
        // Two reads of one writer's value cannot see it come and go.
        let flicker = [
            call(MapOp::Insert(1, 10), 0, 9, None),
            call(MapOp::Get(1), 1, 2, Some(10)),
            call(MapOp::Get(1), 3, 4, None),
        ];
        assert!(linearizable(&history(&[], &flicker), None).is_err());
    }

    #[test]
    fn updates_need_a_value_and_removes_take_it() {
        let ops = [
            call(MapOp::Update(1, 5), 0, 1, None),
            call(MapOp::Insert(1, 6), 2, 3, None),
            call(MapOp::Update(1, 7), 4, 5, Some(6)),
            call(MapOp::Remove(1), 6, 7, Some(7)),
            call(MapOp::Remove(1), 8, 9, None),
        ];
        for at in 0..11 {
            let cut = history(&[(2, 2)], &ops).cut(at);
            assert!(linearizable(&cut, None).is_ok(), "cut at {at}");
        }
        assert!(admits(&history(&[(2, 2)], &ops), &[(2, 2)]));
        assert!(!admits(&history(&[(2, 2)], &ops), &[]), "a key that nobody touched");
        assert!(!admits(&history(&[], &ops), &[(3, 3)]), "a key out of nowhere");
    }

    #[test]
    fn what_a_crash_cut_off_may_have_happened_or_not() {
        let cut =
            history(&[(1, 1)], &[pending(MapOp::Insert(1, 2), 0), pending(MapOp::Remove(1), 0)]);
        for found in [vec![(1, 1)], vec![(1, 2)], vec![]] {
            assert!(admits(&cut, &found));
        }
        assert!(!admits(&cut, &[(1, 3)]));
        let whole = history(&[(1, 1)], &[call(MapOp::Insert(1, 2), 0, 5, Some(1))]);
        assert!(!admits(&whole, &[(1, 1)]));
        assert!(admits(&whole.cut(5), &[(1, 1)]) && admits(&whole.cut(5), &[(1, 2)]));
        assert!(!admits(&whole.cut(0), &[(1, 2)]), "it has not even begun");
    }

    #[test]
    fn what_a_read_has_answered_must_not_be_lost() {
        let read = [pending(MapOp::Insert(1, 2), 0), call(MapOp::Get(1), 1, 2, Some(2))];
        let history = history(&[(1, 1)], &read);
        assert!(linearizable(&history, None).is_ok());
        assert!(admits(&history, &[(1, 2)]) && !admits(&history, &[(1, 1)]));
        assert!(admits(&history.clone().without_reads(), &[(1, 1)]));
        // A value that nobody writes is wrong, however little reads promise.
        let mut strange = history;
        strange.calls[1].response = Some((2, Some(3)));
        assert!(linearizable(&strange, None).is_err());
    }

    #[test]
    fn many_operations_at_once_are_searched_in_no_time() {
        let writes = (0..12).map(|i| call(MapOp::Insert(1, i), i as usize, 99, i.checked_sub(1)));
        let reads = (0..12).map(|i| call(MapOp::Get(1), 0, 98, Some(11 - i)));
        let calls: Vec<OpInterval> = writes.chain(reads).collect();
        assert_eq!(linearizable(&history(&[], &calls), Some(&[(1, 11)])), Ok(()));
    }
}
