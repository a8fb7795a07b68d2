//! The first look: which page is what, and which cannot be read.

use std::collections::{BTreeMap, HashSet};

use everleaf::Result;
use everleaf_file::DamagedFile;
use everleaf_pmem::{Error, PageNo};
use everleaf_pool::{CATALOG_ANCHOR, Pool, RecordRef, kind};
use everleaf_tree::salvage::{NodeEntry, NodeView, node};

use crate::report::Loss;

/// A key and its value, as they were found.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// Pages that stay in memory at most, before all are given back.
const PAGES_HELD: usize = 1 << 14;

/// The facts that are known of a page.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageInfo {
    /// The kind that it has and can be read as; [`kind::FREE`] for everything else.
    pub kind: u8,
    /// Of a node.
    pub level: u8,
    /// Whether changes of it are missing.
    pub is_stale: bool,
    /// The part that it belongs to, counted from 1; 0: none yet.
    pub owner: u32,
}

/// The pool that is read, and what is known of its pages.
pub(crate) struct Survey {
    pub pool: Pool<DamagedFile>,
    dense: Vec<PageInfo>,
    /// Pages behind those of the page table.
    sparse: BTreeMap<PageNo, PageInfo>,
    /// All nodes that can be read, by page.
    pub nodes: Vec<PageNo>,
    /// All record pages that can be read, by page.
    pub records: Vec<PageNo>,
    /// All anchors that can be read, by page.
    pub anchors: Vec<PageNo>,
    /// Whether every page that can be read is what it was when the pool was last written to, and, once
    /// the catalog has been read, every tree is known.
    pub is_closed: bool,
    /// Whether there is no anchor but those that were found and those that were lost.
    pub map_is_whole: bool,
    /// Anchors that cannot be read, but for the catalog's.
    pub lost_anchors: Vec<PageNo>,
    pub pages_lost: u64,
    pub losses: Vec<Loss>,
    /// Pages that are known although their images are damaged.
    seen: HashSet<PageNo>,
}

fn name_of(kind: u8) -> &'static str {
    match kind {
        kind::NODE => "a node",
        kind::RECORD => "a record page",
        kind::ANCHOR => "an anchor",
        kind::MAP => "a map page",
        _ => "a page",
    }
}

impl Survey {
    /// Looks at every page.
    pub fn new(pool: Pool<DamagedFile>, progress: &mut dyn FnMut(u64, u64)) -> Result<Self> {
        let damaged_file = pool.medium();
        let findings = damaged_file.findings().iter();
        let losses = findings.map(|f| Loss::new(f.file, f.offset, f.what.clone())).collect();
        let is_closed = !damaged_file.has_gaps();
        let dense = vec![PageInfo::default(); damaged_file.pages() as usize];
        let mut survey = Self {
            pool,
            dense,
            sparse: BTreeMap::new(),
            nodes: Vec::new(),
            records: Vec::new(),
            anchors: Vec::new(),
            is_closed,
            map_is_whole: true,
            lost_anchors: Vec::new(),
            pages_lost: 0,
            losses,
            seen: HashSet::new(),
        };
        let per_group = survey.pool.group_pages();
        let (pages, further) = (survey.medium().pages(), survey.medium().further_pages());
        let mut firsts: Vec<PageNo> = (0..pages).step_by(per_group as usize).collect();
        firsts.extend(further.iter().map(|no| no / per_group * per_group));
        firsts.dedup();
        let total = u64::from(per_group) * firsts.len() as u64;
        for (i, first) in firsts.iter().enumerate() {
            survey.group(*first, &further)?;
            progress(u64::from(per_group) * (i as u64 + 1), total);
        }
        survey.expect_catalog();
        for pages in [&survey.nodes, &survey.records, &survey.anchors] {
            assert!(
                pages.is_sorted_by(|a, b| a < b),
                "pages are looked up by halves, and read once"
            );
        }
        Ok(survey)
    }

    pub fn medium(&self) -> &DamagedFile {
        self.pool.medium()
    }

    /// The facts that are known of a page.
    pub fn info(&self, no: PageNo) -> PageInfo {
        let dense = self.dense.get(no as usize).copied();
        dense.or_else(|| self.sparse.get(&no).copied()).unwrap_or_default()
    }

    pub fn info_mut(&mut self, no: PageNo) -> &mut PageInfo {
        match self.dense.get_mut(no as usize) {
            Some(info) => info,
            None => self.sparse.entry(no).or_default(),
        }
    }

    /// Where the image of a page is in the file, or was.
    pub fn offset(&self, no: PageNo) -> u64 {
        self.medium().place_of(no)
    }

    /// The damage that an error of a page reports. A place that the layers above the file name becomes that of
    /// the page's image, which is somewhere else than they think.
    pub fn loss_of(&self, error: &Error, no: PageNo) -> Loss {
        let mut loss = Loss::of(error, self.offset(no));
        let page = self.pool.page(no).map_or(0, |page| page.file_offset());
        if (page..page + self.pool.geometry().page_bytes() as u64).contains(&loss.offset) {
            loss.offset = self.offset(no);
        }
        loss
    }

    /// Gives memory back when there is much of it.
    pub fn tidy(&mut self) -> Result<()> {
        if self.medium().fetched() > PAGES_HELD {
            self.pool.medium_mut().forget()?;
        }
        Ok(())
    }

    pub fn node(&self, no: PageNo) -> Result<NodeView> {
        node(&self.pool, no, self.medium().data_bytes())
    }

    pub fn pair(&self, r: RecordRef) -> Result<Pair> {
        self.pool.pair(r, self.medium().data_bytes())
    }

    /// The page on which the pair of an entry of a leaf is: that of its record, or the leaf itself.
    pub fn page_of(&self, node: &NodeView, entry: &NodeEntry) -> PageNo {
        entry.record().map_or(node.page, |r| r.page())
    }

    pub fn pair_of(&self, node: &NodeView, entry: &NodeEntry) -> Result<Pair> {
        node.pair(&self.pool, entry, self.medium().data_bytes())
    }

    /// Notes a page that is in use and cannot be read.
    fn lose(&mut self, no: PageNo, kind: u8, error: &Error) {
        let mut loss = self.loss_of(error, no);
        loss.what = format!("{}: {}", name_of(kind), loss.what);
        loss.page = Some(no);
        self.losses.push(loss);
        self.pages_lost += 1;
        self.map_is_whole &= kind != kind::MAP;
        if kind == kind::ANCHOR && no != CATALOG_ANCHOR {
            self.lost_anchors.push(no);
        }
    }

    fn group(&mut self, first: PageNo, further: &[PageNo]) -> Result<()> {
        self.tidy()?;
        let end = first.saturating_add(self.pool.group_pages());
        let found = self.pool.group(first);
        let is_stale = self.see_stale(first);
        match found {
            Ok(Some(group)) if group.holds_extents => {}
            Ok(Some(group)) => {
                let doubts = is_stale || self.medium().has_gaps();
                for (i, owner) in group.owners.iter().enumerate().skip(1) {
                    let no = first + i as PageNo;
                    match *owner {
                        kind::FREE if !doubts => {}
                        kind::NODE | kind::RECORD | kind::ANCHOR => {
                            self.page(no, *owner, doubts)?
                        }
                        _ => self.unmapped(no)?,
                    }
                }
            }
            Ok(None) if !self.is_group(first, end, further)? => {}
            Ok(None) => {
                let what = format!("page {first} is blank");
                let error = Error::corrupt(self.offset(first), what);
                self.lose(first, kind::MAP, &error);
                self.without_map(first, end, further)?;
            }
            Err(error) => {
                self.lose(first, kind::MAP, &error);
                self.without_map(first, end, further)?;
            }
        }
        Ok(())
    }

    /// Whether there must be a group, although its map page is blank.
    fn is_group(&mut self, first: PageNo, end: PageNo, further: &[PageNo]) -> Result<bool> {
        if self.medium().has_been_home(first) {
            return Ok(true);
        }
        let here = self.medium().pages().min(end);
        for no in
            (first..here).chain(further.iter().copied().filter(|no| (first..end).contains(no)))
        {
            self.tidy()?;
            if self.pool.kind_and_level(no).is_ok_and(|(kind, _)| kind != kind::FREE) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the pages of a group by what their headers say.
    fn without_map(&mut self, first: PageNo, end: PageNo, further: &[PageNo]) -> Result<()> {
        let here = self.medium().pages().min(end);
        for no in first + 1..here {
            self.unmapped(no)?;
        }
        for no in further.iter().filter(|no| (first + 1..end).contains(no) && **no >= here) {
            self.unmapped(*no)?;
        }
        Ok(())
    }

    /// A page of which only its own header says what it is. One that cannot be read may be free, or
    /// part of an extent.
    fn unmapped(&mut self, no: PageNo) -> Result<()> {
        self.tidy()?;
        if let Ok((kind, level)) = self.pool.kind_and_level(no) {
            self.add(no, kind, level);
        }
        Ok(())
    }

    fn page(&mut self, no: PageNo, owner: u8, doubts: bool) -> Result<()> {
        self.tidy()?;
        match self.pool.kind_and_level(no) {
            Ok((kind, level)) if kind == owner || doubts && kind != kind::FREE => {
                self.add(no, kind, level);
            }
            Ok(_) if doubts => {}
            Ok((found, _)) => {
                let found = if found == kind::FREE { "blank or free" } else { name_of(found) };
                let error = Error::corrupt(self.offset(no), format!("page {no} is {found}"));
                self.lose(no, owner, &error);
            }
            Err(error) => self.lose(no, owner, &error),
        }
        Ok(())
    }

    fn add(&mut self, no: PageNo, kind: u8, level: u8) {
        let is_stale = self.see_stale(no);
        let sound = match kind {
            kind::NODE => self.node(no).map(|_| self.nodes.push(no)),
            kind::RECORD => self.pool.records_on(no).map(|_| self.records.push(no)),
            kind::ANCHOR => self.pool.anchor(no).map(|_| self.anchors.push(no)),
            _ => return,
        };
        match sound {
            Ok(()) => *self.info_mut(no) = PageInfo { kind, level, is_stale, owner: 0 },
            Err(error) => self.lose(no, kind, &error),
        }
    }

    /// Whether changes of a page that was fetched are missing; says so, and if its image is damaged.
    fn see_stale(&mut self, no: PageNo) -> bool {
        if let Some(finding) = self.medium().replaced(no)
            && self.seen.insert(no)
        {
            let mut loss = Loss::new(finding.file, finding.offset, finding.what);
            loss.page = Some(no);
            self.losses.push(loss);
        }
        let Some(finding) = self.medium().stale(no) else { return false };
        let mut loss = Loss::new(finding.file, finding.offset, finding.what);
        loss.page = Some(no);
        self.losses.push(loss);
        self.is_closed = false;
        true
    }

    /// The catalog's anchor is missing only if there is something to be found by it.
    fn expect_catalog(&mut self) {
        let is_known = self.info(CATALOG_ANCHOR).kind == kind::ANCHOR
            || self.losses.iter().any(|loss| loss.page == Some(CATALOG_ANCHOR));
        let is_blank = self.nodes.is_empty() && self.records.is_empty() && self.losses.is_empty();
        if !is_known && !is_blank {
            let what = format!("page {CATALOG_ANCHOR} cannot be read");
            let error = Error::corrupt(self.offset(CATALOG_ANCHOR), what);
            self.lose(CATALOG_ANCHOR, kind::ANCHOR, &error);
        }
    }
}
