//! Finds what is wrong with a history.
//!
//! A key of a queue comes once and goes once. A transaction that does not find it in a range has read the range before
//! the key was put (rw), or after it was removed (wr). Mostly time says which, or one of the two contradicts what else is
//! known. If neither does, nothing is concluded.
//!
//! ```text
//! pop_first            one transaction: it finds no key before the one that it removes
//! remove_range         one transaction for each key that it removes, the largest ones first, each at some time of the
//!                      call: it says no more of what is there. A key that was there all the time is removed.
//! ```
//!
//! Which keys a `remove_range` has removed it does not say: those that are gone, if nobody else can have removed them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use everleaf::Isolation;

use super::graph::{Edge, Graph, name_of};
use super::{Done, List, QUEUE};

/// How a key of a queue ended.
#[derive(Debug, Clone, PartialEq)]
enum End {
    Stays,
    Taken(u32),
    /// One of these has removed a range in which it was, up to this moment.
    Swept(Vec<u32>, u64),
}

/// All that a run of threads has seen.
#[derive(Debug, Default)]
pub struct History {
    done: BTreeMap<u32, Done>,
    /// The last list of each key: also of those that are gone.
    last: BTreeMap<u64, List>,
    ends: BTreeMap<u64, End>,
    /// Errors about keys that are gone, or are not.
    wrong: Vec<String>,
    pub conflicts: u64,
}

/// The transactions that have taken a key, and its list then.
type Takers<'a> = Vec<(u32, &'a Done, &'a List)>;

/// How the keys of a queue began and ended, by nodes.
type Lives = BTreeMap<u64, (usize, Option<usize>)>;

impl History {
    /// Of transactions, and of the lists that are there when they have ended.
    pub fn new(done: impl IntoIterator<Item = (u32, Done)>, there: BTreeMap<u64, List>) -> Self {
        let mut history = History { done: done.into_iter().collect(), ..History::default() };
        history.conflicts = history.done.values().filter(|done| !done.is_committed).count() as u64;
        history.end_keys(&there);
        history.last.extend(there);
        history.count_sweeps();
        history
    }

    fn committed(&self) -> impl Iterator<Item = (u32, &Done)> + Clone {
        self.done.iter().filter(|(_, done)| done.is_committed).map(|(id, done)| (*id, done))
    }

    /// Finds out how each key of a queue ended, and its list if it is gone.
    fn end_keys(&mut self, there: &BTreeMap<u64, List>) {
        let mut longest: BTreeMap<u64, &List> = BTreeMap::new();
        let mut takers: BTreeMap<u64, Takers<'_>> = BTreeMap::new();
        for (id, done) in self.committed() {
            for (n, list) in done.seen.appends.iter().filter(|(n, _)| *n >= QUEUE) {
                let before = longest.entry(*n).or_insert(list);
                *before = if before.len() < list.len() { list } else { *before };
            }
            for (n, list) in &done.seen.takes {
                takers.entry(*n).or_default().push((id, done, list));
            }
        }
        let keys: BTreeSet<u64> = longest.keys().chain(takers.keys()).copied().collect();
        let sweepers: Vec<_> =
            self.committed().filter(|(_, done)| done.seen.sweep.is_some()).collect();
        let (mut lasts, mut ends, mut wrong) = (Vec::new(), BTreeMap::new(), Vec::new());
        for n in keys {
            let taken = takers.get(&n).map_or(&[][..], |takers| takers);
            let born = longest.get(&n).and_then(|list| self.done.get(&list[0].0));
            let (end, complaint) = end_of(n, born, &sweepers, (there.contains_key(&n), taken));
            wrong.extend(complaint);
            let list = taken.first().map(|(.., list)| *list).or(longest.get(&n).copied());
            lasts.extend(list.map(|list| (n, list.clone())));
            ends.insert(n, end);
        }
        self.last.extend(lasts);
        (self.ends, self.wrong) = (ends, wrong);
    }

    /// Whether each removal of a range says as many keys as it can have removed.
    fn count_sweeps(&mut self) {
        let mut counts: HashMap<u32, (u64, u64)> = HashMap::new();
        for end in self.ends.values() {
            let End::Swept(by, _) = end else { continue };
            for id in by {
                let (least, most) = counts.entry(*id).or_default();
                *least += u64::from(by.len() == 1);
                *most += 1;
            }
        }
        for (id, done) in self.done.iter().filter(|(_, done)| done.is_committed) {
            let Some((_, said)) = &done.seen.sweep else { continue };
            let (least, most) = counts.get(id).copied().unwrap_or_default();
            if !(least..=most).contains(said) {
                let what = format!("{id} says that it has removed {said}, not {least} to {most}");
                self.wrong.push(what);
            }
        }
    }

    /// All that is wrong with it: in the order of time, too.
    pub fn anomalies(&self, isolation: Isolation) -> Vec<String> {
        let mut found = self.wrong.clone();
        found.extend(self.wrong_lists());
        if !found.is_empty() {
            return found;
        }
        let (mut graph, lives) = self.graph();
        let nodes = graph.len();
        let is_committed: Vec<_> = self.done.values().map(|done| done.is_committed).collect();
        let open = self.add_absences(&mut graph, &lives);
        graph.add_times((0..nodes).filter(|node| is_committed.get(*node) != Some(&false)));
        if isolation != Isolation::Serializable {
            let cycle = graph.without_two_rw().cycle();
            let cycle = cycle.map(|way| way.into_iter().map(|(at, edge)| (at / 2, edge)).collect());
            return cycle.map(|cycle: Vec<_>| self.describe(&cycle)).into_iter().collect();
        }
        if let Some(cycle) = graph.cycle() {
            return vec![self.describe(&cycle)];
        }
        let case = graph.decide(open).map(|nodes| {
            let nodes = nodes.map(|node| self.at(node));
            format!(
                "a phantom: a range was read neither before nor after a key was there: {nodes:?}"
            )
        });
        let cycle = graph.cycle().map(|cycle| self.describe(&cycle));
        case.into_iter().chain(cycle).collect()
    }

    fn at(&self, place: usize) -> Option<(&u32, &Done)> {
        self.done.iter().nth(place)
    }

    fn describe(&self, cycle: &[(usize, Edge)]) -> String {
        let mut all = name_of(cycle) + ":";
        for (node, edge) in cycle {
            all += &match self.at(*node) {
                Some((id, _)) => format!(" -{edge:?}-> {id}"),
                None => format!(" -{edge:?}->"),
            };
        }
        let some: Vec<_> = cycle.iter().filter_map(|(node, _)| self.at(*node)).take(6).collect();
        format!("{all}: {some:?}")
    }

    /// Entries that are gone, and lists that are no beginning of the last one, or end in the midst of a transaction.
    fn wrong_lists(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (n, last) in &self.last {
            let mut seen = HashMap::new();
            for (at, (id, _)) in last.iter().enumerate() {
                if !self.done.get(id).is_some_and(|done| done.is_committed) {
                    wrong.push(format!("G1a: key {n} has an entry of {id}, which was aborted"));
                }
                if seen.insert(id, at).is_some_and(|before| before + 1 != at) {
                    wrong.push(format!("G0: the entries of {id} in key {n} are mixed with others"));
                }
            }
        }
        for (id, done) in self.committed() {
            for (n, list) in &done.seen.appends {
                let entry = &list[list.len() - 1];
                if !self.last.get(n).is_some_and(|last| last.contains(entry)) {
                    wrong.push(format!("P4: {entry:?} is lost from key {n}"));
                }
            }
            for (n, read) in &done.seen.reads {
                let last = self.last.get(n).map_or(&[][..], |last| last);
                // Its own entries of before count as read, and are the last ones.
                let others = read.iter().take_while(|(tx, _)| *tx != id).count();
                if !last.starts_with(read) {
                    wrong.push(format!("{id} has read {read:?} of key {n}, which is {last:?}"));
                } else if others > 0
                    && last.get(others).is_some_and(|(tx, _)| *tx == last[others - 1].0)
                {
                    wrong.push(format!("G1b: {id} has read {read:?} of key {n}: {last:?}"));
                }
            }
        }
        wrong
    }

    /// All that is known without the absence of keys of queues. The first nodes are the transactions.
    fn graph(&self) -> (Graph, Lives) {
        let mut graph = Graph::default();
        let place = self.done.keys().enumerate().map(|(at, id)| (*id, at));
        let place: HashMap<u32, usize> = place.collect();
        for done in self.done.values() {
            graph.add((done.begun, done.ended));
        }
        let lives = self.add_lives(&mut graph, &place);
        for last in self.last.values() {
            for two in last.windows(2) {
                graph.link(place[&two[0].0], place[&two[1].0], Edge::Ww);
            }
        }
        for (n, (_, end)) in &lives {
            let last = self.last[n].last().map(|(id, _)| place[id]);
            if let (Some(last), Some(end)) = (last, end) {
                graph.link(last, *end, Edge::Ww);
            }
        }
        for (id, done) in self.committed() {
            let own = place[&id];
            for (n, read) in &done.seen.reads {
                let last = self.last.get(n).map_or(&[][..], |last| last);
                let others = read.iter().take_while(|(tx, _)| *tx != id).count();
                if others > 0 {
                    graph.link(place[&last[others - 1].0], own, Edge::Wr);
                }
                if let Some((tx, _)) = last[others..].iter().find(|(tx, _)| *tx != id) {
                    graph.link(own, place[tx], Edge::Rw);
                } else if let Some((_, Some(end))) = lives.get(n) {
                    graph.link(own, *end, Edge::Phantom);
                }
            }
        }
        (graph, lives)
    }

    /// Nodes for the keys that removals of ranges have removed, and which nodes began and ended each key.
    fn add_lives(&self, graph: &mut Graph, place: &HashMap<u32, usize>) -> Lives {
        let mut lives = Lives::new();
        let mut former: HashMap<u32, usize> = HashMap::new();
        // The largest keys go first.
        for (n, end) in self.ends.iter().rev() {
            let end = match end {
                End::Stays => None,
                End::Taken(id) => Some(place[id]),
                End::Swept(by, until) => {
                    let spans = by.iter().map(|id| graph.span(place[id]));
                    let span = spans.reduce(|one, two| (one.0.min(two.0), one.1.max(two.1)));
                    let (start, end) = span.expect("somebody has removed it");
                    let node = graph.add((start, end.min(*until)));
                    if let [id] = by[..]
                        && let Some(former) = former.insert(id, node)
                    {
                        graph.link(former, node, Edge::Rt);
                    }
                    Some(node)
                }
            };
            lives.insert(*n, (place[&self.last[n][0].0], end));
        }
        lives
    }

    /// Adds what follows from keys that a range did not have; where that is one of two things, it is left open.
    fn add_absences(&self, graph: &mut Graph, lives: &Lives) -> Vec<[(usize, usize, Edge); 2]> {
        let mut open = Vec::new();
        for (own, (_, done)) in self.done.iter().enumerate().filter(|(_, (_, it))| it.is_committed)
        {
            for (range, found) in &done.seen.ranges {
                let absent = lives.range(range.clone()).filter(|(n, _)| !found.contains(n));
                for (_, (begin, end)) in absent {
                    if *begin == own || *end == Some(own) || *end == Some(*begin) {
                        continue;
                    }
                    let before = (own, *begin, Edge::Phantom);
                    let Some(end) = *end else {
                        graph.link(before.0, before.1, before.2);
                        continue;
                    };
                    let after = (end, own, Edge::Wr);
                    let (begin, end) = (graph.span(*begin), graph.span(end));
                    if done.ended < begin.0 || end.1 < done.begun {
                        // Time says that, too.
                    } else if begin.1 < done.begun {
                        graph.link(after.0, after.1, after.2);
                    } else if done.ended < end.0 {
                        graph.link(before.0, before.1, before.2);
                    } else {
                        open.push([before, after]);
                    }
                }
            }
        }
        open
    }
}

/// How a key ended, and what is wrong with that: `born` has put it, and it is there in the end or was taken.
fn end_of(
    n: u64,
    born: Option<&Done>,
    sweepers: &[(u32, &Done)],
    (is_there, taken): (bool, &[(u32, &Done, &List)]),
) -> (End, Option<String>) {
    let put = born.map_or((u64::MAX, u64::MAX), |born| (born.begun, born.ended));
    let over = sweepers.iter().filter(|(_, done)| {
        done.seen.sweep.as_ref().is_some_and(|(range, _)| range.contains(&n)) && done.ended > put.0
    });
    // When it is gone at the latest, for somebody has removed all that was there.
    let until = over.clone().filter(|(_, done)| done.begun > put.1).map(|(_, done)| done.ended);
    let until = until.min().unwrap_or(u64::MAX);
    match (is_there, taken) {
        (true, []) => {
            let complaint = format!("key {n} is there, and was removed with a range");
            (End::Stays, (until < u64::MAX).then_some(complaint))
        }
        (false, [(id, done, _)]) => {
            let complaint = format!("{id} has taken key {n}, which was removed with a range");
            (End::Taken(*id), (until < done.begun).then_some(complaint))
        }
        (false, []) => {
            let by: Vec<_> =
                over.filter(|(_, done)| done.begun < until).map(|(id, _)| *id).collect();
            let complaint = format!("key {n} is gone, and nobody has removed it");
            let end = if by.is_empty() { End::Stays } else { End::Swept(by.clone(), until) };
            (end, by.is_empty().then_some(complaint))
        }
        _ => {
            let by: Vec<_> = taken.iter().map(|(id, ..)| id).collect();
            (End::Stays, Some(format!("key {n} was taken by {by:?}; is it there? {is_there}")))
        }
    }
}
