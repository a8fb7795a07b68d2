//! Reading a pool without believing that it is whole: page by page, by what each says of itself.
//!
//! [`Pool::open`] needs the map. These functions need no other page than the one that they are
//! asked for, and work on a pool that was never opened ([`Pool::unformatted`]).

use everleaf_pmem::page::HEAD_WORDS;
use everleaf_pmem::{Medium, PageNo, Result};

use crate::change::{
    TAG_ANCHOR_INIT, TAG_FREE_PAGE, TAG_MAP, TAG_MAP_INIT, TAG_RECORD_FREE, TAG_RECORD_INIT,
    TAG_RECORD_PUT, TAG_SET_ROOT, damaged,
};
use crate::kind::{KIND_WORD, MAP, kind_of, level_of};
use crate::layout::{self, has, ones};
use crate::map::{self, Role};
use crate::pool::Pool;
use crate::record::{RecordRef, RecordView};

/// A key and its value.
pub type KeyValue = (Vec<u8>, Vec<u8>);

/// A map page's account of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapPage {
    /// Whether the group is for extents.
    pub holds_extents: bool,
    /// The kind of each page, the map page first.
    pub owners: Vec<u8>,
}

/// How long what a record holds is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSizes {
    /// Of the key.
    pub key_bytes: usize,
    /// Of the value.
    pub value_bytes: u64,
    /// How many runs of pages the value has outside of the record; 0: the record holds it.
    pub extents: usize,
}

/// Whether a change of the pool with this tag sets everything in the page that matters.
pub fn is_whole(tag: u8) -> bool {
    matches!(tag, TAG_MAP_INIT | TAG_FREE_PAGE | TAG_RECORD_INIT | TAG_ANCHOR_INIT)
}

/// Says what a change of the pool with this tag does; none if it is no such tag.
pub fn name_of(tag: u8) -> Option<&'static str> {
    Some(match tag {
        TAG_MAP => "owner of a page",
        TAG_MAP_INIT => "new map page",
        TAG_FREE_PAGE => "page is free",
        TAG_RECORD_INIT => "new record page",
        TAG_RECORD_PUT => "record",
        TAG_RECORD_FREE => "record is free",
        TAG_SET_ROOT => "root of a tree",
        TAG_ANCHOR_INIT => "new anchor",
        _ => return None,
    })
}

impl<M: Medium> Pool<M> {
    /// The medium, to change how it is read. No page is in use meanwhile, as the borrow shows.
    pub fn medium_mut(&mut self) -> &mut M {
        &mut self.medium
    }

    /// Pages in a group, the map page included.
    pub fn group_pages(&self) -> PageNo {
        map::group_pages(self.geometry())
    }

    /// The kind that a page's own header says, and the level of a node.
    ///
    /// # Errors
    /// Those of fetching the page.
    pub fn kind_and_level(&self, no: PageNo) -> Result<(u8, u8)> {
        let (page, held) = self.latch(no)?;
        let word = page.head(KIND_WORD).load();
        held.unlock_unchanged();
        Ok((kind_of(word), level_of(word)))
    }

    /// Reads the map page at the start of a group; `None` if it is not one.
    ///
    /// # Errors
    /// Those of fetching the page; Corrupt, if it is damaged.
    pub fn group(&self, first: PageNo) -> Result<Option<MapPage>> {
        let (page, held) = self.latch(first)?;
        held.unlock_unchanged();
        if kind_of(page.head(KIND_WORD).load()) != MAP && map::byte(page, 0) != MAP {
            return Ok(None);
        }
        let holds_extents = map::role(page)? == Role::Extents;
        let owners = (0..self.group_pages()).map(|i| map::byte(page, i)).collect();
        Ok(Some(MapPage { holds_extents, owners }))
    }

    /// The records that a record page says are in use.
    ///
    /// # Errors
    /// Those of fetching the page; Corrupt, if it is no record page.
    pub fn records_on(&self, no: PageNo) -> Result<Vec<RecordRef>> {
        let (page, held) = self.latch(no)?;
        held.unlock_unchanged();
        let shape = layout::shape(page)?;
        if no.is_multiple_of(self.group_pages()) {
            return Err(damaged(page, 8 * KIND_WORD, "a record page in the place of a map page"));
        }
        let places = ones(layout::used(page)).take_while(|bit| *bit < usize::from(shape.places));
        Ok(places.map(|bit| RecordRef::new(no, bit as u16 * shape.units)).collect())
    }

    /// How long key and value of a record are, which must be in use.
    ///
    /// # Errors
    /// Those of fetching its page; Corrupt, if the record is damaged.
    pub fn record_sizes(&self, r: RecordRef) -> Result<RecordSizes> {
        let (page, held) = self.latch(r.page())?;
        held.unlock_unchanged();
        let lens = RecordView::view(page, r, None).lens()?;
        let (key_bytes, value_bytes, extents) = (lens.key_bytes, lens.value_bytes, lens.extents);
        Ok(RecordSizes { key_bytes, value_bytes, extents })
    }

    /// The words of a page's header.
    ///
    /// # Errors
    /// Those of fetching the page.
    pub fn header(&self, no: PageNo) -> Result<[u64; HEAD_WORDS]> {
        let (page, held) = self.latch(no)?;
        held.unlock_unchanged();
        Ok(std::array::from_fn(|i| page.head(i).load()))
    }

    /// The key and value of a record, which must be in use. The checksum of what extents hold is
    /// checked.
    ///
    /// # Errors
    /// Those of fetching its page and its extents; Corrupt, if the record or its extents are
    /// damaged, or the value would be longer than `most_bytes`.
    pub fn pair(&self, r: RecordRef, most_bytes: u64) -> Result<KeyValue> {
        let (page, held) = self.latch(r.page())?;
        held.unlock_unchanged();
        let shape = layout::shape(page)?;
        let record = RecordView::view(page, r, None);
        let bad = |what: String| Err(damaged(page, record.offset_in_page(), what));
        if !shape.bit(r.unit()).is_some_and(|bit| has(&layout::used(page), bit)) {
            return bad("no record is in use here".into());
        }
        let (lens, room) = (record.lens()?, 16 * usize::from(shape.units));
        if lens.record_bytes() > room {
            return bad(format!("{} bytes in a place of {room}", lens.record_bytes()));
        }
        if lens.extents > 0 && lens.extent_bytes() > most_bytes {
            return bad(format!("{} bytes of extents in a smaller file", lens.extent_bytes()));
        }
        let (mut key, mut value) = (Vec::new(), Vec::new());
        // The value first: with it the checksum of a key in extents is checked.
        self.value(&record, &mut value)?;
        self.key(&record, &mut key)?;
        Ok((key, value))
    }

    /// Where a record is in the file, in bytes.
    pub fn record_offset(&self, r: RecordRef) -> u64 {
        let start = self.page(r.page()).map_or(0, |page| page.file_offset());
        start + 64 + 16 * u64::from(r.unit())
    }
}
