//! A graph of what came before what, and its cycles.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Why one node comes before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    Ww,
    Wr,
    Rw,
    /// An rw of which the reader has read a range: it has seen that a key is not there yet, or that it is still there.
    Phantom,
    Rt,
}

impl Edge {
    fn is_rw(self) -> bool {
        matches!(self, Edge::Rw | Edge::Phantom)
    }
}

/// A node, and by which edge a way comes to it.
type Step = (usize, Edge);

#[derive(Debug, Default)]
pub struct Graph {
    next: Vec<Vec<Step>>,
    /// Between which moments each node ran.
    spans: Vec<(u64, u64)>,
}

impl Graph {
    pub fn add(&mut self, span: (u64, u64)) -> usize {
        self.spans.push(span);
        self.next.push(Vec::new());
        self.next.len() - 1
    }

    pub fn len(&self) -> usize {
        self.next.len()
    }

    pub fn span(&self, node: usize) -> (u64, u64) {
        self.spans[node]
    }

    /// A node does not come before itself by what it does.
    pub fn link(&mut self, from: usize, to: usize, edge: Edge) {
        if from != to {
            self.next[from].push((to, edge));
        }
    }

    /// Links each of these nodes to those that began after its end, by way of nodes for the ends, one after the other.
    pub fn add_times(&mut self, nodes: impl Iterator<Item = usize> + Clone) {
        let first = self.len();
        let mut ends: Vec<_> = nodes.clone().map(|node| (self.spans[node].1, node)).collect();
        ends.sort_unstable();
        for (end, node) in &ends {
            let at = self.add((*end, *end));
            self.link(*node, at, Edge::Rt);
            if at > first {
                self.link(at - 1, at, Edge::Rt);
            }
        }
        for node in nodes {
            let before = ends.partition_point(|(end, _)| *end < self.spans[node].0);
            if before > 0 {
                self.link(first + before - 1, node, Edge::Rt);
            }
        }
    }

    /// Where each node stands in an order that all edges keep, roughly by time. Shorter if there are cycles.
    fn order(&self) -> Vec<usize> {
        let mut entering = vec![0_u32; self.len()];
        self.next.iter().flatten().for_each(|(to, _)| entering[*to] += 1);
        let by_time = |node: usize| Reverse((self.spans[node].0, node));
        let free = (0..self.len()).filter(|node| entering[*node] == 0);
        let mut free: BinaryHeap<_> = free.map(by_time).collect();
        let mut order = Vec::new();
        while let Some(Reverse((_, node))) = free.pop() {
            order.push(node);
            for (to, _) in &self.next[node] {
                entering[*to] -= 1;
                if entering[*to] == 0 {
                    free.push(by_time(*to));
                }
            }
        }
        order
    }

    /// A short cycle, if there is one: each of its nodes, and the edge that leads to it.
    pub fn cycle(&self) -> Option<Vec<Step>> {
        let order = self.order();
        let mut left = vec![true; self.len()];
        order.into_iter().for_each(|node| left[node] = false);
        let mut before = vec![Vec::new(); self.len()];
        for from in (0..self.len()).filter(|node| left[*node]) {
            self.next[from].iter().for_each(|(to, _)| before[*to].push(from));
        }
        // Each of those that are left has one before it that is left, too: a way back comes to a cycle.
        let mut at = left.iter().position(|left| *left)?;
        let mut passed = vec![false; self.len()];
        while !std::mem::replace(&mut passed[at], true) {
            at = before[at][0];
        }
        let (end, mut on_cycle) = (at, vec![at]);
        while before[at][0] != end {
            at = before[at][0];
            on_cycle.push(at);
        }
        on_cycle.into_iter().filter_map(|node| self.way(node, node)).min_by_key(Vec::len)
    }

    /// The shortest way from one node to another, which is more than to stay there.
    fn way(&self, from: usize, to: usize) -> Option<Vec<Step>> {
        let mut came: Vec<Option<Step>> = vec![None; self.len()];
        let mut next = VecDeque::from([from]);
        while let Some(at) = next.pop_front() {
            for (node, edge) in &self.next[at] {
                if came[*node].is_none() {
                    came[*node] = Some((at, *edge));
                    next.push_back(*node);
                }
            }
            if came[to].is_some() {
                break;
            }
        }
        let (mut way, mut at) = (Vec::new(), to);
        loop {
            let (before, edge) = came[at]?;
            way.push((at, edge));
            at = before;
            if at == from {
                way.reverse();
                return Some(way);
            }
        }
    }

    /// The same without what two rw in a row lead to: node `n` is here `2 n` where an rw may follow, and `2 n + 1`
    /// after one. Snapshot isolation allows no cycle of these, however long: what commits before another one begins
    /// begins before it, and so does what does not see the commit of another one that ends before a third one begins.
    pub fn without_two_rw(&self) -> Graph {
        let mut graph = Graph::default();
        for node in 0..2 * self.len() {
            graph.add(self.spans[node / 2]);
        }
        for (from, next) in self.next.iter().enumerate() {
            for (to, edge) in next {
                graph.link(2 * from, 2 * to + usize::from(edge.is_rw()), *edge);
                if !edge.is_rw() {
                    graph.link(2 * from + 1, 2 * to, *edge);
                }
            }
        }
        graph
    }

    /// Decides which node comes before which in cases of two edges, of which one is there. Adds that one if the other
    /// would close a cycle, until nothing is to be added or there is a cycle. Says which case has no way out.
    pub fn decide(&mut self, mut open: Vec<[(usize, usize, Edge); 2]>) -> Option<[usize; 2]> {
        let mut place = vec![0; self.len()];
        loop {
            let (before, order) = (open.len(), self.order());
            if order.len() < self.len() {
                return None;
            }
            order.iter().enumerate().for_each(|(at, node)| place[*node] = at);
            let mut left = Vec::new();
            // Edges wait here: an added one changes the order, so that `place` counts no more.
            let mut added = Vec::new();
            for case in open {
                let [is_first, is_second] =
                    case.map(|(from, to, _)| !self.reaches(to, from, &place));
                match (is_first, is_second) {
                    (false, false) => return Some([case[0].0, case[0].1]),
                    (true, true) => left.push(case),
                    _ => added.push(case[usize::from(is_second)]),
                }
            }
            for (from, to, edge) in added {
                self.link(from, to, edge);
            }
            open = left;
            if open.len() == before {
                return None;
            }
        }
    }

    /// Whether a way leads from one node to another, in a graph without cycles whose nodes have these places.
    fn reaches(&self, from: usize, to: usize, place: &[usize]) -> bool {
        let (mut seen, mut next) = (std::collections::HashSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            if at == to {
                return true;
            }
            let near = self.next[at].iter().filter(|(node, _)| place[*node] <= place[to]);
            next.extend(near.map(|(node, _)| *node).filter(|node| seen.insert(*node)));
        }
        false
    }
}

/// The name of a cycle.
pub fn name_of(cycle: &[Step]) -> String {
    let edges: Vec<_> = cycle.iter().map(|(_, edge)| *edge).collect();
    let count = edges.iter().filter(|edge| edge.is_rw()).count();
    let next = edges.iter().cycle().skip(1);
    let in_row = count > 1 && edges.iter().zip(next).any(|(one, two)| one.is_rw() && two.is_rw());
    let mut name = match count {
        0 => "G1c",
        1 => "G-single",
        _ if in_row => "G2",
        _ => "long fork",
    }
    .to_owned();
    if edges.contains(&Edge::Phantom) {
        name += " by a phantom";
    }
    if edges.contains(&Edge::Rt) {
        name += " in the order of time";
    }
    name
}
