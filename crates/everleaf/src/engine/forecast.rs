//! Room for a whole batch, before its first change.
//!
//! As a rule there is plenty: each put may want a page for its record, one for a leaf and two for the
//! records of that leaf's bounds, whatever others do meanwhile. Where there is not so much, others are kept
//! out, and what the batch wants is counted from the nodes that it will meet.

use std::collections::{BTreeMap, HashMap};

use everleaf_pmem::{Medium, PageNo, fallible};
use everleaf_pool::{Pool, Wants};
use everleaf_tree::blink::{KeyPlace, Stage};
use everleaf_tree::node::NodeRoom;

use super::open_tree::{Change, TreeChanges};
use crate::{Error, Result};

/// Names this memory in errors.
const ROOM: &str = "the plan of a batch";

/// As many levels are taken to be full, up to the root, when a batch begins.
const LEVELS: u64 = 8;

/// How many changes a batch has.
pub(super) fn count(batch: &[TreeChanges<'_>]) -> usize {
    batch.iter().map(|part| part.changes.len()).sum()
}

/// Whether it puts anything.
pub(super) fn adds(batch: &[TreeChanges<'_>]) -> bool {
    batch.iter().any(|part| part.changes.iter().any(|change| change.value.is_some()))
}

/// Memory for where the changes of a batch happen; that of few changes needs no allocation.
#[derive(Default)]
pub(super) struct Places([Option<KeyPlace>; 4], Vec<Option<KeyPlace>>);

impl Places {
    /// One for each change, tree by tree, for [`touch`] to find.
    pub fn of(&mut self, batch: &[TreeChanges<'_>]) -> Result<&mut [Option<KeyPlace>]> {
        fallible::short(&mut self.0, &mut self.1, count(batch), ROOM)
    }
}

/// Reads all that the changes will change or free, and stores where: what fails, fails now.
pub(super) fn touch(batch: &[TreeChanges<'_>], mut places: &mut [Option<KeyPlace>]) -> Result<()> {
    for part in batch {
        part.touch_anchor()?;
        part.touch(places.split_off_mut(..part.changes.len()).expect("one for each change"))?;
    }
    Ok(())
}

/// Makes all changes, in the order of their trees and keys. With the error, how many were made before it.
pub(super) fn apply(
    batch: &[TreeChanges<'_>],
    mut places: &mut [Option<KeyPlace>],
) -> Result<(), (usize, Error)> {
    let mut before = 0;
    for part in batch {
        let own = places.split_off_mut(..part.changes.len()).expect("one for each change");
        let mut done = 0;
        while done < own.len() {
            let some = part.apply(done, &mut own[done..]);
            done += some.map_err(|error| (before + done, error))?;
        }
        before += done;
    }
    Ok(())
}

/// The most that a batch may want, whatever other writers do. The bounds of a node that is split are keys that are
/// in it, so they may be longer than all that the batch puts.
pub(super) fn generous<M: Medium>(pool: &Pool<M>, batch: &[TreeChanges<'_>]) -> Wants {
    let mut wants = Wants { pages: 32 + count(batch) as u64 / 2, extents: 0 };
    let (mut last, mut extents, mut longest) = (None, 0, 0);
    for Change { key, value } in batch.iter().flat_map(|part| part.changes) {
        let Some(value) = value else { continue };
        if last != Some((key.len(), value.len())) {
            last = Some((key.len(), value.len()));
            extents = pool.wants_of_pair(key.len(), value.len()).extents;
            longest = longest.max(key.len());
        }
        wants += Wants { pages: 4, extents };
    }
    let bounds = 2 * (LEVELS + count(batch) as u64);
    wants += Wants { pages: 0, extents: bounds * pool.extents_of_bound(longest) };
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

/// The most that a batch wants while nobody else writes; `places` is where its changes happen.
pub(super) fn tight<M: Medium>(
    pool: &Pool<M>,
    batch: &[TreeChanges<'_>],
    places: &[Option<KeyPlace>],
) -> Result<Wants> {
    let (mut wants, mut records) = (Wants::default(), BTreeMap::<u16, (u64, u64)>::new());
    let (all, mut places) = (count(batch), places.iter());
    for part in batch {
        let mut nodes = MetNodes::default();
        for change in part.changes {
            let place = places.next();
            let Some(value) = &change.value else {
                // A merge gives back more than it wants; its bound may be of another size.
                wants.pages = wants.pages.max(1);
                continue;
            };
            let pair = pool.wants_of_pair(change.key.len(), value.len());
            wants.extents += pair.extents;
            records.entry(pair.units).or_insert((0, pair.places)).0 += 1;
            let is_there = place.is_some_and(|place| place.is_some_and(|place| place.is_there()));
            if !is_there || part.tree.values_grow() {
                nodes.add(change.key, &part.stages(change, all)?)?;
            }
        }
        let (new, bounds) = nodes.new_nodes();
        let record = pool.wants_of_pair(nodes.longest, 0);
        // Both records of a bound are in one page if two fit.
        let pages = bounds * if record.places > 1 { 1 } else { 2 };
        wants += Wants { pages: new + pages, extents: 2 * bounds * record.extents };
    }
    wants.pages += records.values().map(|(n, places)| n.div_ceil(*places)).sum::<u64>();
    Ok(wants)
}
