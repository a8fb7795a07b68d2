//! What a salvage got out, and what it did not.

use std::fmt;

/// What [`salvage`](crate::salvage) copied, and what it could not.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// The trees of the new pool in bytewise order of their names, those of `lost+found` included.
    pub trees: Vec<SalvagedTree>,
    /// Every damage that was met, in the order in which it was. Empty: the old pool was sound, and
    /// the new one holds all of it.
    pub losses: Vec<Loss>,
    /// Pages of the old pool that were in use and cannot be read.
    pub pages_lost: u64,
    /// Pairs that leaves name and whose record cannot be read. What lost leaves named beside that
    /// is not known.
    pub pairs_lost: u64,
}

/// Where the pairs of a new tree come from.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The tree that had this name.
    Named,
    /// A tree whose name is lost; it is called `lost+found/tree-PAGE` after its anchor.
    Unnamed,
    /// Sound leaves that may be of more than one tree, `lost+found/leaf-PAGE`; or single pairs
    /// like that, `lost+found/records`.
    Stray,
    /// Records without a value that no leaf names, `lost+found/empty`: pairs with an empty value,
    /// or bounds of lost nodes, which are no pairs.
    Doubtful,
}

/// One tree of the new pool.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvagedTree {
    /// Its name in the new pool.
    pub name: String,
    /// Where its pairs come from.
    pub origin: Origin,
    /// How many it has.
    pub pairs: u64,
    /// How many of them no leaf named: they are in the only gap that their key falls into.
    pub pairs_found: u64,
    /// Pairs that its leaves name and that cannot be read.
    pub pairs_lost: u64,
}

/// The keys from one on up to another; `None`: from the first, up to the last.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The lowest key that may be concerned.
    pub from: Option<Vec<u8>>,
    /// All keys that are concerned are below this one.
    pub to: Option<Vec<u8>>,
}

/// One damage, and what it costs where that is known.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Which file: `data`, `journal 0` or `journal 1`.
    pub file: &'static str,
    /// Where, in bytes from the start of that file.
    pub offset: u64,
    /// The page that cannot be read, or the first of several.
    pub page: Option<u32>,
    /// What was found.
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

    /// Pairs in trees of the old pool, those without a name included.
    pub fn pairs(&self) -> u64 {
        self.count(|origin| matches!(origin, Origin::Named | Origin::Unnamed))
    }

    /// Pairs whose tree is not known, the doubtful ones included.
    pub fn pairs_stray(&self) -> u64 {
        self.count(|origin| matches!(origin, Origin::Stray | Origin::Doubtful))
    }

    fn count(&self, is_counted: impl Fn(Origin) -> bool) -> u64 {
        self.trees.iter().filter(|tree| is_counted(tree.origin)).map(|tree| tree.pairs).sum()
    }
}

impl Loss {
    pub(crate) fn new(file: &'static str, offset: u64, what: impl Into<String>) -> Self {
        let what = what.into();
        Loss { file, offset, page: None, what, tree: None, keys: None, pairs: None }
    }

    /// Damage that an error tells of; its place, if it has none, is `offset` of the data file.
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
