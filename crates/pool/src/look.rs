//! The pool as a check saw it, and whether it is still so: the ground for claims about what a pool
//! holds and what trees name of it, made one after the other while others write.
//!
//! ```text
//! watch who owns pages        from here on a page that changes owner is remembered
//! the map; record pages       as they are, each with the version of its latch
//! walks over all trees        name nodes and records
//! compare                     a claim counts only if its page has kept owner and version since
//! ```
//!
//! Nobody touches what is lost, so nothing that is lost is overlooked; a page that somebody is at work
//! on is left for the next look.

use std::collections::{HashMap, HashSet};

use everleaf_pmem::{Error, LINE_BYTES, Medium, PageNo, Result, Version, fallible};

use crate::anchor;
use crate::kind::{ANCHOR, LOG, NODE, RECORD};
use crate::layout::{self, has, ones};
use crate::pool::{CATALOG_ANCHOR, Pool};
use crate::record::RecordRef;
use crate::space::Watch;

/// The name of this memory in errors.
const COMPARE: &str = "what trees name, compared with the pool";

/// Something in a page that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageDamage {
    /// The page.
    pub page: PageNo,
    /// Where in the page, in bytes from its start.
    pub offset_bytes_in_page: usize,
    /// A description of what was found.
    pub what: String,
}

impl PageDamage {
    /// Turns an error into damage, at the place that the error names if that lies in a page, otherwise
    /// at the start of `page`. The text does not repeat the place. Where pages have no fixed place in
    /// the file, the text of the error says which page it is about.
    pub fn of<M: Medium>(error: Error, page: PageNo, pool: &Pool<M>) -> PageDamage {
        let Error::Corrupt { offset, what, .. } = error else {
            return PageDamage { page, offset_bytes_in_page: 0, what: error.to_string() };
        };
        let page_bytes = pool.geometry().page_bytes() as u64;
        let first = pool.page(0).map_or(0, |page| page.file_offset());
        let named = match M::JOURNALED {
            false => offset.checked_sub(first).map(|at| (at / page_bytes, at % page_bytes)),
            true => page_of(&what).map(|no| {
                let at = offset.wrapping_sub(first + no * page_bytes);
                (no, if at < page_bytes { at } else { 0 })
            }),
        };
        let (page, at) = match named {
            Some((no, at))
                if pool.page(no as PageNo).is_ok_and(|page| u64::from(page.no()) == no) =>
            {
                (no as PageNo, at as usize)
            }
            _ => (page, 0),
        };
        PageDamage { page, offset_bytes_in_page: at, what }
    }
}

/// The page that the text of an error begins with.
fn page_of(what: &str) -> Option<u64> {
    let what = what.strip_prefix("large value's ").unwrap_or(what);
    what.strip_prefix("page ")?.split_once(':')?.0.parse().ok()
}

/// The pool as [`Pool::look`] saw it.
pub struct PoolLook<'p, M: Medium> {
    pool: &'p Pool<M>,
    watch: Watch<'p>,
    /// The map.
    pub(crate) owners: Vec<u8>,
    /// For each record page that has been looked at, the version of its latch then.
    pub(crate) stamps: HashMap<PageNo, Version>,
}

impl<'p, M: Medium> PoolLook<'p, M> {
    pub(crate) fn new(pool: &'p Pool<M>) -> Result<Self> {
        Ok(PoolLook { pool, watch: pool.space.watch(), owners: Vec::new(), stamps: HashMap::new() })
    }

    /// The owners of all pages when the look began.
    pub fn owners(&self) -> &[u8] {
        &self.owners
    }

    /// Whether a page still has the owner that it had, and had no other meanwhile. The map first: a
    /// page is remembered before its byte changes.
    pub(crate) fn keeps(&self, no: PageNo) -> bool {
        let then = self.owners.get(no as usize).copied();
        self.pool.owner(no).ok() == then && then.is_some() && !self.watch.has_touched(no)
    }

    /// Whether a record page has not changed since it was looked at.
    pub(crate) fn is_settled(&self, no: PageNo) -> bool {
        let stamp = self.stamps.get(&no).copied();
        let page = self.pool.page(no).ok();
        stamp.zip(page).is_some_and(|(stamp, page)| page.latch().validate(stamp))
    }

    /// Looks at the anchors, but for those that a check of their trees has read: so each page is read once, however
    /// many trees there are. O(pages).
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory), [`Error::Stuck`](everleaf_pmem::Error::Stuck).
    pub fn anchors(&self, is_read: impl Fn(PageNo) -> bool) -> Result<Vec<PageDamage>> {
        let mut damages = Vec::new();
        for (no, owner) in (0..).zip(&self.owners) {
            if *owner != ANCHOR || is_read(no) {
                continue;
            }
            match self.anchor(no) {
                Ok(found) => damages.extend(found),
                Err(error @ (Error::NoMemory { .. } | Error::Stuck { .. })) => return Err(error),
                Err(error) => damages.push(PageDamage::of(error, no, self.pool)),
            }
        }
        Ok(damages)
    }

    fn anchor(&self, no: PageNo) -> Result<Option<PageDamage>> {
        let (page, held) = self.pool.latch(no)?;
        let mut found = None;
        if self.pool.owner(no)? == ANCHOR {
            let root = anchor::root_of(page)?;
            let is_node = || {
                root < self.pool.pages_in_groups() && self.pool.owner(root).is_ok_and(|o| o == NODE)
            };
            if root != 0 && !is_node() {
                let what = format!("the root {root} is no node");
                found = Some(PageDamage { page: no, offset_bytes_in_page: 8, what });
            }
        }
        held.unlock_unchanged();
        Ok(found)
    }

    /// Finds records that trees name but that are free, or that are named twice. `records` are all
    /// records that trees name, in any order and as often as they are named. With `and_lost` it also
    /// finds what is in use but not named; `is_named` answers for anchors, nodes and logs, by their
    /// kind, and `has_node` for a node that is not named: it may have been on its way. O(pages + records).
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory); those of `has_node` that are no damage.
    pub fn compare(
        &self,
        is_named: impl Fn(u8, PageNo) -> bool,
        records: impl Iterator<Item = RecordRef>,
        has_node: impl Fn(PageNo) -> Result<bool>,
        and_lost: bool,
    ) -> Result<Vec<PageDamage>> {
        let (mut damages, mut named) = (Vec::new(), HashSet::new());
        for r in records {
            if !fallible::insert(&mut named, r, COMPARE)? || !self.is_in_use(r) {
                self.misnamed(r, &mut damages)?;
            }
        }
        let owners = if and_lost { &self.owners[..] } else { &[] };
        for (no, owner) in (0..).zip(owners) {
            let what = match *owner {
                ANCHOR if no != CATALOG_ANCHOR => "an anchor of no tree",
                NODE => "a node that no tree reaches",
                LOG => "a log page of no tree",
                RECORD => {
                    self.unnamed_records(no, &named, &mut damages)?;
                    continue;
                }
                _ => continue,
            };
            let has_node = || match has_node(no) {
                // It is lost and damaged.
                Err(Error::Corrupt { .. }) => Ok(false),
                answer => answer,
            };
            if is_named(*owner, no) || !self.keeps(no) || *owner == NODE && has_node()? {
                continue;
            }
            if self.keeps(no) {
                let lost = PageDamage { page: no, offset_bytes_in_page: 0, what: what.into() };
                fallible::push(&mut damages, lost, COMPARE)?;
            }
        }
        Ok(damages)
    }

    fn is_in_use(&self, r: RecordRef) -> bool {
        let Ok(page) = self.pool.page(r.page()) else { return false };
        let bit = layout::shape_of(page).and_then(|shape| shape.bit(r.unit()));
        let owner = self.owners.get(r.page() as usize);
        owner == Some(&RECORD) && bit.is_some_and(|bit| has(&layout::used(page), bit))
    }

    /// A record that is named is free, or is named twice: if its page is as it was.
    fn misnamed(&self, r: RecordRef, damages: &mut Vec<PageDamage>) -> Result<()> {
        let no = r.page();
        let is_page = self.owners.get(no as usize) == Some(&RECORD);
        if if is_page { self.is_settled(no) } else { self.keeps(no) } {
            let what = "a record that a tree names is free, or is named twice".into();
            let offset_bytes_in_page = LINE_BYTES + 16 * usize::from(r.unit());
            fallible::push(damages, PageDamage { page: no, offset_bytes_in_page, what }, COMPARE)?;
        }
        Ok(())
    }

    fn unnamed_records(
        &self,
        no: PageNo,
        named: &HashSet<RecordRef>,
        damages: &mut Vec<PageDamage>,
    ) -> Result<()> {
        let Ok(page) = self.pool.page(no) else { return Ok(()) };
        // A page that is no record page has been told of.
        let Ok(shape) = layout::shape(page) else { return Ok(()) };
        let used = layout::used(page);
        if !self.is_settled(no) {
            return Ok(());
        }
        for bit in ones(used).take_while(|bit| *bit < usize::from(shape.places)) {
            if !named.contains(&RecordRef::new(no, bit as u16 * shape.units)) {
                let what = "a record that no tree names".into();
                fallible::push(
                    damages,
                    PageDamage { page: no, offset_bytes_in_page: 0, what },
                    COMPARE,
                )?;
            }
        }
        Ok(())
    }
}
