//! Which image is each page's, where parts of the page table may be gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::PageNo;

use crate::io::IoFile;
use crate::store::format::EXTENT_BYTES;
use crate::store::image::{self, ImageKey, ImageKind, ImageName, Placed};
use crate::store::superblock::Super;
use crate::store::table::{
    LEAF_BYTES, LEAF_PAGES, LeafEntries, Places, RootCounts, decode_leaf, leaf_of,
};

use super::scan::{Finding, Found, FoundImage};

/// Where the journal says that pages of large values are.
pub(super) type Adopted = HashMap<PageNo, Placed>;

/// A good root.
#[derive(Debug)]
pub(super) struct FoundRoot {
    pub places: Places,
    /// The run of the checkpoint that wrote it.
    pub stamp: u64,
    pub counts: RootCounts,
}

/// A leaf, and the run of the checkpoint that wrote it.
#[derive(Debug)]
struct FoundLeaf {
    entries: LeafEntries,
    stamp: u64,
}

/// The page table, as far as it is there.
#[derive(Debug, Default)]
pub(super) struct FoundTable {
    leaves: BTreeMap<u32, FoundLeaf>,
    /// Leaves that there must be, and that cannot be read.
    lost: BTreeSet<u32>,
    /// Whether a root has said which leaves there are.
    has_root: bool,
    /// Whether the newest images of the pages of lost leaves are those that the leaves named.
    is_proven: bool,
}

/// The best that is known of where a page is.
#[derive(Debug, Clone, Copy)]
pub(super) enum BestKnown {
    /// The table says it.
    Is(Placed),
    /// The table does not; this image is the newest.
    Newest(Option<Placed>),
}

/// Reads an image and checks it. Its contents have no more than `most` bytes. Says its stamp, too.
///
/// # Errors
/// Corrupt, I/O errors, NoMemory.
pub(super) fn read_image(
    data: &dyn IoFile,
    key: ImageKey,
    placed: Placed,
    name: ImageName,
    most: u64,
) -> Result<(Vec<u8>, u64)> {
    let failed = |e| Error::io(format!("reading a {}", name.kind.name()), e);
    let len = data.len().map_err(failed)?;
    if placed.end() > len {
        let what = format!("{name}: the file ends before it does");
        return Err(Error::corrupt(placed.place.min(len), what));
    }
    let mut bytes = fallible::filled(0_u8, placed.bytes as usize, name.kind.name())?;
    let n = data.read_at(&mut bytes, placed.place).map_err(failed)?;
    let head = key.check(&bytes[..n], placed, name)?;
    if head.raw as u64 > most {
        return Err(Error::corrupt(placed.place, format!("{name}: {} bytes", head.raw)));
    }
    let mut raw = Vec::new();
    image::unpack(&bytes, &head, &mut raw)?;
    Ok((raw, head.stamp))
}

/// Reads a root; none is that of an empty pool.
///
/// # Errors
/// Corrupt, I/O errors, NoMemory.
pub(super) fn read_root(data: &dyn IoFile, key: ImageKey, root: Placed) -> Result<FoundRoot> {
    if !root.has_image() {
        return match root == Placed::default() {
            true => {
                Ok(FoundRoot { places: Places::default(), stamp: 0, counts: RootCounts::default() })
            }
            false => Err(Error::corrupt(80, "a root without a place")),
        };
    }
    let name = ImageName { kind: ImageKind::Root, number: 0 };
    let (raw, stamp) = read_image(data, key, root, name, u64::MAX)?;
    let len = data.len().map_err(|e| Error::io("reading the root of the page table", e))?;
    let (places, counts) = Places::of_root(&raw, root.place, len.max(root.end()))?;
    Ok(FoundRoot { places, stamp, counts })
}

/// The root that the superblock names; what is wrong with it is noted.
///
/// # Errors
/// NoMemory.
pub(super) fn named_root(
    data: &dyn IoFile,
    key: ImageKey,
    superblock: &Super,
    findings: &mut Vec<Finding>,
) -> Result<Option<FoundRoot>> {
    match read_root(data, key, superblock.root) {
        Ok(root) => Ok(Some(root)),
        Err(error @ Error::NoMemory { .. }) => Err(error),
        Err(error) => {
            findings.push(Finding::of(&error, superblock.root.place));
            let what = "without the root of the page table, pages may be older than they were";
            findings.push(Finding::data(superblock.root.place, what.into()));
            Ok(None)
        }
    }
}

impl FoundTable {
    /// That of a root, or, without one, of the newest leaves.
    ///
    /// # Errors
    /// NoMemory.
    pub fn new(
        data: &dyn IoFile,
        key: ImageKey,
        root: Option<&FoundRoot>,
        found: &Found,
        findings: &mut Vec<Finding>,
    ) -> Result<Self> {
        let mut table = Self { has_root: root.is_some(), ..Self::default() };
        let leaves: Vec<(u32, Placed)> = match root {
            Some(FoundRoot { places, .. }) => {
                let n = (places.pages_end() / LEAF_PAGES as u64) as u32;
                let placed = |i| places.leaf(i).filter(|placed| placed.has_image());
                (0..n).filter_map(|i| Some((i, placed(i)?))).collect()
            }
            None => {
                // An image may say any number.
                let is_possible = |i: u32| i <= leaf_of(PageNo::MAX);
                let leaves = found.leaves.iter().map(|(i, leaf)| (*i, leaf.placed));
                findings.extend(leaves.clone().filter(|(i, _)| !is_possible(*i)).map(
                    |(i, placed)| {
                        let what = format!("leaf {i} of the page table is of no page that can be");
                        Finding::data(placed.place, what)
                    },
                ));
                leaves.filter(|(i, _)| is_possible(*i)).collect()
            }
        };
        for (i, placed) in leaves {
            let name = ImageName { kind: ImageKind::Table, number: i };
            let read = read_image(data, key, placed, name, LEAF_BYTES as u64);
            let read = read.and_then(|(raw, stamp)| {
                Ok(FoundLeaf { entries: decode_leaf(&raw, placed.place)?, stamp })
            });
            match read {
                Ok(leaf) => drop(table.leaves.insert(i, leaf)),
                Err(error @ Error::NoMemory { .. }) => return Err(error),
                Err(error) => {
                    findings.push(Finding::of(&error, placed.place));
                    table.lost.insert(i);
                }
            }
        }
        Ok(table)
    }

    /// Looks whether the newest images are those that the lost leaves named; the root does not know of
    /// large values that the journal `adopted`.
    ///
    /// # Errors
    /// NoMemory.
    pub fn prove(&mut self, root: &FoundRoot, found: &Found, adopted: &Adopted) -> Result<()> {
        self.is_proven = !self.lost.is_empty() && self.adds_up(&root.places, found, adopted)?;
        Ok(())
    }

    /// The newest image of either kind for a page number.
    fn newest(found: &Found, no: PageNo) -> Option<FoundImage> {
        let (page, value) = (found.pages.get(&no), found.values.get(&no));
        page.into_iter().chain(value).max_by_key(|image| image.stamp).copied()
    }

    /// Whether as many bytes of each extent are alive as the root says, if the newest images of the pages
    /// of lost leaves are those that count, but for those that the journal `adopted`.
    fn adds_up(&self, places: &Places, found: &Found, adopted: &Adopted) -> Result<bool> {
        let mut live = places.extents.live()?;
        let leaves = 0..(places.pages_end() / LEAF_PAGES as u64) as u32;
        let leaves = leaves.filter_map(|i| places.leaf(i));
        let named = self.leaves.values().flat_map(|leaf| leaf.entries.iter().copied());
        let numbers = |i: u32| (0..LEAF_PAGES as u32).map(move |k| i * LEAF_PAGES as u32 + k);
        let lost = self.lost.iter().flat_map(|i| numbers(*i));
        let newest = lost.filter_map(|no| Some((no, Self::newest(found, no)?.placed)));
        let newest = newest.filter(|(no, placed)| adopted.get(no) != Some(placed));
        let newest = newest.map(|(_, placed)| placed);
        for placed in leaves.chain(named).chain(newest).filter(|placed| placed.has_image()) {
            let left = live.get_mut(placed.extent() as usize);
            let Some(left) = left.filter(|left| **left >= placed.room()) else { return Ok(false) };
            *left -= placed.room();
        }
        Ok(live.iter().all(|left| *left == 0))
    }

    /// Whether the newest image of a page of which the table does not know may be an older one.
    pub fn is_doubtful(&self) -> bool {
        !self.is_proven
    }

    /// Whether a root has said which leaves there are.
    pub fn has_root(&self) -> bool {
        self.has_root
    }

    /// Where a page is.
    pub fn get(&self, found: &Found, no: PageNo) -> BestKnown {
        let newest = || found.pages.get(&no);
        match self.leaves.get(&leaf_of(no)) {
            Some(FoundLeaf { entries, stamp }) => match newest() {
                // Without a root the newest leaf may be an old one.
                Some(newest) if !self.has_root && newest.stamp > *stamp => {
                    BestKnown::Newest(Some(newest.placed))
                }
                _ => BestKnown::Is(entries[no as usize % LEAF_PAGES]),
            },
            None if !self.is_unknown(no) => BestKnown::Is(Placed::default()),
            None => BestKnown::Newest(newest().map(|image| image.placed)),
        }
    }

    /// The pages from `from` on that the table knows, or images if it does not; rising.
    pub fn pages(&self, found: &Found, from: PageNo) -> Vec<PageNo> {
        let mut pages = Vec::new();
        for (i, leaf) in self.leaves.range(leaf_of(from)..) {
            let known = leaf.entries.iter().zip(0..).filter(|(e, _)| **e != Placed::default());
            pages.extend(known.map(|(_, k): (_, u32)| i * LEAF_PAGES as u32 + k));
        }
        let found = found.pages.keys().chain(found.values.keys());
        pages.extend(found.filter(|no| self.is_unknown(**no)));
        pages.retain(|no| *no >= from);
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Behind the last page that the table knows, or an image if it does not.
    pub fn end(&self, found: &Found) -> PageNo {
        let known = self.leaves.iter().rev().find_map(|(i, leaf)| {
            let last = leaf.entries.iter().rposition(|entry| *entry != Placed::default())?;
            Some((i * LEAF_PAGES as u32).saturating_add(last as u32 + 1))
        });
        let lost = self.lost.iter().next_back().map(|i| i * LEAF_PAGES as u32);
        let unknown = found.pages.keys().chain(found.values.keys());
        let unknown = unknown.filter(|no| self.is_unknown(**no)).max();
        let unknown = unknown.map(|no| no.saturating_add(1));
        known.max(lost).max(unknown).unwrap_or(0)
    }

    /// Whether the table cannot say whether there is a page.
    fn is_unknown(&self, no: PageNo) -> bool {
        !self.has_root || self.lost.contains(&leaf_of(no))
    }
}

const _: () = assert!((LEAF_BYTES as u64) < EXTENT_BYTES);
