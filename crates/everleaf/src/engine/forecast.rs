//! Room for a whole batch, before its first change.
//!
//! As a rule there is plenty: each put may want a page for its record, one for a leaf and two for the
//! records of that leaf's bounds, whatever others do meanwhile. Where there is not so much, others are kept
//! out, and what the batch wants is counted from the nodes that it will meet.

use std::collections::{BTreeMap, HashMap};

use everleaf_pmem::{Medium, PageNo, fallible};
use everleaf_pool::{Pool, Wants};
use everleaf_tree::blink::Stage;
use everleaf_tree::node::NodeRoom;

use super::open_tree::BatchChange;
use crate::Result;

/// What memory here is for.
const ROOM: &str = "the plan of a batch";

/// Reads all that the changes will change or free: what fails, fails now.
pub(super) fn touch(changes: &[BatchChange]) -> Result<()> {
    let mut last = None;
    changes.iter().try_for_each(|change| {
        if last.replace(change.tree.anchor()) != Some(change.tree.anchor()) {
            // The root of its tree may become another one.
            change.touch_anchor()?;
        }
        change.touch().map(drop)
    })
}

/// What a batch may want at most, whatever other writers do.
pub(super) fn generous<M: Medium>(pool: &Pool<M>, changes: &[BatchChange]) -> Wants {
    let mut wants = Wants { pages: 32 + changes.len() as u64 / 2, extents: 0 };
    for change in changes {
        if let Some(value) = &change.value {
            let bounds = pool.wants_of_pair(change.key.len(), 0);
            let extents = pool.wants_of_pair(change.key.len(), value.len()).extents;
            wants += Wants { pages: 4, extents: extents + 2 * bounds.extents };
        }
    }
    wants
}

/// A node that the batch will meet.
struct MetNode {
    stage: Stage,
    parent: Option<PageNo>,
    /// Units that its load grows by.
    adds: usize,
}

/// How often a node is split that is to hold so much.
fn splits(load: usize, node: &NodeRoom) -> usize {
    debug_assert!(node.room > node.entry, "a node that holds one entry cannot be split");
    match load.checked_sub(node.room + 1) {
        None => 0,
        Some(more) => 1 + more / node.gain,
    }
}

/// The nodes of one tree that the batch will meet, by level.
#[derive(Default)]
struct MetNodes {
    levels: Vec<HashMap<PageNo, MetNode>>,
    longest: usize,
}

impl MetNodes {
    fn add(&mut self, key: &[u8], stages: &[Stage]) -> Result<()> {
        self.longest = self.longest.max(key.len());
        for (level, stage) in stages.iter().enumerate() {
            if self.levels.len() <= level {
                fallible::push(&mut self.levels, HashMap::new(), ROOM)?;
            }
            let parent = stages.get(level + 1).map(|stage| stage.page);
            let node = MetNode { stage: *stage, parent, adds: 0 };
            let known = self.levels[level].entry(stage.page).or_insert(node);
            known.adds += if level == 0 { stage.room.entry } else { 0 };
            self.longest = self.longest.max(stage.longest);
        }
        Ok(())
    }

    /// New nodes, and how many of them have bounds of their own: roots have none.
    fn new_nodes(&mut self) -> (u64, u64) {
        let (mut nodes, mut bounds) = (0, 0);
        for level in 0..self.levels.len() {
            let mut adds = Vec::new();
            let mut top = None;
            for node in self.levels[level].values() {
                let room = node.stage.room;
                let n = splits(room.load + node.adds, &room);
                bounds += n;
                adds.push((node.parent, n));
                if node.parent.is_none() {
                    top = Some((n, room));
                }
            }
            for (parent, n) in adds {
                let above = self.levels.get_mut(level + 1);
                if let Some(node) = parent.zip(above).and_then(|(no, above)| above.get_mut(&no)) {
                    node.adds += n * node.stage.room.entry;
                }
            }
            // New roots, above an old one that is split. They hold separators, which are an eighth of a page
            // at most; by the length of a pair this might never end.
            while let Some((n @ 1.., room)) = top {
                nodes += 1;
                let separator = room.entry.min((room.room / 5).max(1));
                let more = splits((n + 1) * separator, &room);
                bounds += more;
                top = Some((more, room));
            }
        }
        ((nodes + bounds) as u64, bounds as u64)
    }
}

/// What a batch wants at most, while nobody else writes.
pub(super) fn tight<M: Medium>(pool: &Pool<M>, changes: &[BatchChange]) -> Result<Wants> {
    let (mut wants, mut records) = (Wants::default(), BTreeMap::<u16, (u64, u64)>::new());
    let mut trees = BTreeMap::<PageNo, MetNodes>::new();
    for change in changes {
        let Some(value) = &change.value else {
            // A merge gives back more than it wants; its bound may be of another size.
            wants.pages = wants.pages.max(1);
            continue;
        };
        let pair = pool.wants_of_pair(change.key.len(), value.len());
        wants.extents += pair.extents;
        records.entry(pair.units).or_insert((0, pair.places)).0 += 1;
        if !change.touch()? {
            let nodes = trees.entry(change.tree.anchor()).or_default();
            nodes.add(&change.key, &change.stages(changes.len())?)?;
        }
    }
    wants.pages += records.values().map(|(n, places)| n.div_ceil(*places)).sum::<u64>();
    for nodes in trees.values_mut() {
        let (new, bounds) = nodes.new_nodes();
        let record = pool.wants_of_pair(nodes.longest, 0);
        // Both records of a bound are in one page if two fit.
        let pages = bounds * if record.places > 1 { 1 } else { 2 };
        wants += Wants { pages: new + pages, extents: 2 * bounds * record.extents };
    }
    Ok(wants)
}
