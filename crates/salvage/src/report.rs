//! The report of a salvage: what it got out, and what it did not.

use std::fmt;

/// The report of [`salvage`](crate::salvage): what it copied, and what it could not.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// The trees of the new pool in bytewise order of their names, those of `lost+found` included.
    pub trees: Vec<SalvagedTree>,
    /// Every damage, in the order in which it was found. If there is none, the old pool was sound and the
    /// new one holds all of it.
    pub losses: Vec<Loss>,
    /// How many pages of the old pool were in use and cannot be read.
    pub pages_lost: u64,
    /// How many pairs are not in the tree that they were in: of each tree, how many it had less those that it
    /// has, so that pairs which went to `lost+found` count. At least so many, unless it
    /// [is exact](Self::pairs_lost_is_exact).
    pub pairs_lost: u64,
    /// Whether no more than that are lost. A pool knows how many pairs its trees have; this is false if that is
    /// damaged, if the end of the journal is, or if it is not known which trees there were.
    pub pairs_lost_is_exact: bool,
}

/// Where the pairs of a tree of the new pool come from.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The tree that had this name.
    Named,
    /// A tree whose name is lost. It is called `lost+found/tree-PAGE` after its anchor.
    Unnamed,
    /// Sound leaves whose tree is unknown, in `lost+found/leaf-PAGE`, or single pairs whose tree is
    /// unknown, in `lost+found/records`.
    Stray,
    /// Records without a value that no leaf names, in `lost+found/empty`. Each is either a pair of a long key
    /// with an empty value or the long bound of a lost node, which is no pair.
    Doubtful,
    /// Pairs of a page whose own image is damaged, or of which changes are missing: from an older image of it. Each
    /// may have another value by now, or have been removed. They are in `lost+found/older/TREE`, without those
    /// whose key the tree itself has.
    Older,
}

/// One tree of the new pool.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvagedTree {
    /// Its name in the new pool.
    pub name: String,
    /// Where its pairs come from.
    pub origin: Origin,
    /// How many pairs it has.
    pub pairs: u64,
    /// How many of them are in records that no leaf named: they are in the only gap that their key falls into.
    pub pairs_found: u64,
    /// How many pairs it had and lacks; of `lost+found`, 0. At least so many, unless it
    /// [is exact](Self::pairs_lost_is_exact).
    pub pairs_lost: u64,
    /// Whether no more than that are lost.
    pub pairs_lost_is_exact: bool,
}

/// A range of keys.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key of the range; `None` if the range begins with the first key of all.
    pub from: Option<Vec<u8>>,
    /// The key behind the range; `None` if the range ends with the last key of all.
    pub to: Option<Vec<u8>>,
}

/// One damage, and what it cost, as far as that is known.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Which file: always `data`, the pool's only one.
    pub file: &'static str,
    /// The place of the damage, in bytes from the start of the file: where the image of the page is, if
    /// something on the page is damaged.
    pub offset: u64,
    /// The page that cannot be read, or the first one of several.
    pub page: Option<u32>,
    /// The finding, in words.
    pub what: String,
    /// The tree that lacks something.
    pub tree: Option<String>,
    /// The keys among which something may be missing from the tree.
    pub keys: Option<KeyRange>,
    /// How many pairs are missing, if that is known.
    pub pairs: Option<u64>,
}

impl Salvaged {
    /// Whether the old pool was sound, so that the new one holds all of it.
    pub fn is_complete(&self) -> bool {
        self.losses.is_empty()
    }

    /// How many pairs are in trees of the old pool, including trees whose name is lost.
    pub fn pairs(&self) -> u64 {
        self.count(|origin| matches!(origin, Origin::Named | Origin::Unnamed))
    }

    /// How many pairs may be older than what their tree had: see [`Origin::Older`].
    pub fn pairs_older(&self) -> u64 {
        self.count(|origin| origin == Origin::Older)
    }

    /// How many pairs belong to an unknown tree, including doubtful ones.
    pub fn pairs_stray(&self) -> u64 {
        self.count(|origin| matches!(origin, Origin::Stray | Origin::Doubtful))
    }

    fn count(&self, is_counted: impl Fn(Origin) -> bool) -> u64 {
        self.trees.iter().filter(|tree| is_counted(tree.origin)).map(|tree| tree.pairs).sum()
    }
}

impl SalvagedTree {
    /// Whether it is of `lost+found`, and no tree of the old pool.
    pub(crate) fn is_found(&self) -> bool {
        !matches!(self.origin, Origin::Named | Origin::Unnamed)
    }
}

impl Loss {
    pub(crate) fn new(file: &'static str, offset: u64, what: impl Into<String>) -> Self {
        let what = what.into();
        Loss { file, offset, page: None, what, tree: None, keys: None, pairs: None }
    }

    /// The damage that an error reports, at `offset` of the file if the error names no place.
    pub(crate) fn of(error: &everleaf::Error, offset: u64) -> Self {
        match error {
            everleaf::Error::Corrupt { file, offset, what } => {
                Loss::new(file, *offset, what.clone())
            }
            other => Loss::new("data", offset, other.to_string()),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.file, self.offset, self.what)
    }
}
