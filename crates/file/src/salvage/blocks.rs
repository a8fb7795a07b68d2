//! Journal files that may be damaged: each good block counts, wherever it is.

use std::path::Path;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;

use crate::format::{Super, u32_at, u64_at};
use crate::io::{Access, Io, IoFile};
use crate::journal::{
    BLOCK_ALIGN, BLOCK_HEAD, BLOCK_MAGIC, BlockKey, HEADER_BYTES, JournalHeader, NAMES, next_block,
};
use crate::names::journal_path;
use crate::names::refused;

use super::finding::Finding;

/// One good block; its payload is at `start .. start + len` of [`FoundJournal::bytes`].
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundBlock {
    pub generation: u64,
    pub epoch: u64,
    pub start: usize,
    pub len: usize,
    /// Byte of the file where the block begins.
    pub at: u64,
    crc: u32,
    link: u32,
}

/// The good blocks of one journal file.
#[derive(Debug)]
pub(super) struct FoundJournal {
    pub name: &'static str,
    pub generation: u64,
    pub bytes: Vec<u8>,
    pub blocks: Vec<FoundBlock>,
}

/// A journal file before it is known to which pool it should belong.
pub(super) struct OpenedJournal {
    name: &'static str,
    file: Box<dyn IoFile>,
    len: u64,
    pub header: Option<JournalHeader>,
}

/// What both files hold.
#[derive(Debug, Default)]
pub(super) struct FoundJournals {
    pub parts: Vec<FoundJournal>,
    /// Whether something that was durable is not there, or may not be.
    pub has_gaps: bool,
}

/// Opens the journal file `i` if it can be read.
///
/// # Errors
/// Foreign, if it is no regular file.
pub(super) fn open(
    io: &dyn Io,
    path: &Path,
    i: usize,
    findings: &mut Vec<Finding>,
) -> Result<Option<OpenedJournal>> {
    let (path, name) = (journal_path(path, i), NAMES[i]);
    let mut note = |what: String| findings.push(Finding { file: name, offset: 0, what });
    let file = match io.open(&path, Access::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::Unsupported => return Err(refused(&path, e)),
        Err(e) => {
            note(e.to_string());
            return Ok(None);
        }
    };
    let len = match file.len() {
        Ok(len) => len,
        Err(e) => {
            note(e.to_string());
            return Ok(None);
        }
    };
    let header = JournalHeader::read(&*file, name).unwrap_or_else(|e| {
        note(e.to_string());
        None
    });
    Ok(Some(OpenedJournal { name, file, len, header }))
}

impl OpenedJournal {
    /// All good blocks of any generation, in the order of the file.
    ///
    /// # Errors
    /// NoMemory.
    fn scan(&self, uuid: &[u8; 16]) -> Result<(Vec<u8>, Vec<FoundBlock>)> {
        let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
        let mut at = HEADER_BYTES;
        while at < self.len {
            at = match self.block(uuid, at, &mut bytes)? {
                Some(block) => {
                    blocks.push(block);
                    next_block(at, block.len as u64)
                }
                None => at + BLOCK_ALIGN,
            };
        }
        Ok((bytes, blocks))
    }

    /// The block at a byte of the file, if it is good; its payload is appended to `bytes`.
    ///
    /// # Errors
    /// NoMemory: such a block may be good.
    fn block(&self, uuid: &[u8; 16], at: u64, bytes: &mut Vec<u8>) -> Result<Option<FoundBlock>> {
        let Some(head) = self.head(at).filter(|head| u32_at(head, 0) == BLOCK_MAGIC) else {
            return Ok(None);
        };
        let generation = u64_at(&head, 8);
        let key = BlockKey::new(uuid, generation);
        let Some((epoch, len)) = key.head(&head, self.len - at) else { return Ok(None) };
        let (start, len) = (bytes.len(), len as usize);
        // Not above the length of the file, as `head` has checked.
        fallible::more(bytes, len, "a block of the journal")?;
        bytes.resize(start + len, 0);
        let read = self.file.read_at(&mut bytes[start..], at + BLOCK_HEAD as u64);
        let crc = u32_at(&head, 4);
        if !read.is_ok_and(|n| n == len) || crc != key.crc(&head, &bytes[start..]) {
            bytes.truncate(start);
            return Ok(None);
        }
        Ok(Some(FoundBlock { generation, epoch, start, len, at, crc, link: u32_at(&head, 36) }))
    }

    fn head(&self, at: u64) -> Option<[u8; BLOCK_HEAD]> {
        let mut head = [0; BLOCK_HEAD];
        let n = self.file.read_at(&mut head, at).ok()?;
        (n == head.len()).then_some(head)
    }

    /// Whether what lies at `at` looks like a block of that generation that has been damaged, or
    /// torn by a crash. Other bytes are what an earlier use of the file has left behind.
    fn is_broken_block(&self, uuid: &[u8; 16], generation: u64, last: u64, at: u64) -> bool {
        let Some(head) = self.head(at) else { return false };
        let is_block = u32_at(&head, 0) == BLOCK_MAGIC;
        let own = u64_at(&head, 8);
        if is_block && own != generation {
            return u32_at(&head, 32) != BlockKey::new(uuid, own).head_crc(&head);
        }
        let epoch = u64_at(&head, 16);
        is_block || own == generation && epoch > last && epoch - last < 1 << 32
    }
}

/// Reads what both files hold of the generations that a replay needs: from the superblock's on, or
/// the last two if there is no superblock.
///
/// # Errors
/// NoMemory.
pub(super) fn read(
    opened: &[Option<OpenedJournal>; 2],
    uuid: &[u8; 16],
    superblock: Option<&Super>,
    is_newest: bool,
    findings: &mut Vec<Finding>,
) -> Result<FoundJournals> {
    let mut journal = FoundJournals::default();
    for opened in opened.iter().flatten() {
        if opened.header.is_some_and(|h| h.uuid != *uuid) {
            journal.find(findings, opened.name, 0, "the journal belongs to another pool");
            continue;
        }
        let (bytes, mut blocks) = opened.scan(uuid)?;
        let newest = blocks.iter().map(|b| b.generation).max();
        let Some(generation) = opened.header.map(|h| h.generation).or(newest) else {
            if opened.len > 0 && superblock.is_none_or(|s| !s.clean) && !is_blank(opened) {
                journal.find(findings, opened.name, 0, "no header and no block is good");
            }
            continue;
        };
        if opened.header.is_none() && superblock.is_none_or(|s| generation >= s.journal_generation)
        {
            journal.note(findings, opened.name, 0, "the header is damaged");
        }
        blocks.retain(|b| b.generation == generation);
        journal.parts.push(FoundJournal { name: opened.name, generation, bytes, blocks });
    }
    journal.parts.sort_by_key(|part| part.generation);
    let last = journal.parts.last().map_or(0, |part| part.generation);
    let first = superblock.map_or(last.saturating_sub(1), |s| s.journal_generation);
    journal.parts.retain(|part| part.generation >= first);
    if let Some(s) = superblock.filter(|s| is_newest && !s.clean)
        && journal.parts.first().is_none_or(|part| part.generation != s.journal_generation)
    {
        let what = format!("generation {} is missing", s.journal_generation);
        journal.find(findings, NAMES[0], 0, what);
    }
    if superblock.is_none() && journal.parts.is_empty() && opened.iter().any(Option::is_none) {
        journal.find(findings, NAMES[0], 0, "the journal is missing, if there was one");
    }
    if let Some(s) = superblock.filter(|s| s.clean)
        && journal.parts.iter().any(|part| !part.blocks.is_empty())
    {
        let what = "the superblock says that the pool was closed, yet the journal has blocks";
        findings.push(Finding::data(s.copy() * 4096 + 44, what.into()));
    }
    journal.check_order(opened, uuid, superblock, findings);
    Ok(journal)
}

/// Whether a journal file is idle, or all zero as far as blocks can begin.
fn is_blank(opened: &OpenedJournal) -> bool {
    if opened.len < HEADER_BYTES {
        return true;
    }
    let mut heads = (0..opened.len).step_by(BLOCK_ALIGN as usize);
    heads.all(|at| opened.head(at).is_none_or(|head| head.iter().all(|b| *b == 0)))
}

impl FoundJournals {
    fn note(
        &self,
        findings: &mut Vec<Finding>,
        file: &'static str,
        offset: u64,
        what: impl Into<String>,
    ) {
        findings.push(Finding { file, offset, what: what.into() });
    }

    /// Something is missing.
    fn find(
        &mut self,
        findings: &mut Vec<Finding>,
        file: &'static str,
        offset: u64,
        what: impl Into<String>,
    ) {
        self.has_gaps = true;
        self.note(findings, file, offset, what);
    }

    /// Says which files of a pool that was not closed are not there.
    pub(super) fn miss(
        &mut self,
        path: &Path,
        opened: &[Option<OpenedJournal>; 2],
        findings: &mut Vec<Finding>,
    ) {
        for (i, _) in opened.iter().enumerate().filter(|(_, opened)| opened.is_none()) {
            let name = journal_path(path, i);
            let what = "the pool was not closed, and that file holds its last changes";
            let what = format!("{} is missing: {what}", name.display());
            self.find(findings, NAMES[i], 0, what);
        }
    }

    /// Holds blocks against the ones before them, and ends against what should follow.
    fn check_order(
        &mut self,
        opened: &[Option<OpenedJournal>; 2],
        uuid: &[u8; 16],
        superblock: Option<&Super>,
        findings: &mut Vec<Finding>,
    ) {
        let (mut found, mut before, mut last) = (Vec::new(), None, 0);
        let mut generation_before = None;
        for part in &mut self.parts {
            let (mut end, name) = (HEADER_BYTES, part.name);
            if generation_before.is_some_and(|g: u64| g.wrapping_add(1) != part.generation) {
                before = None;
                found.push((name, 0, "the generation before is missing".to_owned()));
            }
            part.blocks.retain(|block| {
                if block.epoch <= last {
                    let what = format!("epoch {} behind epoch {last}", block.epoch);
                    found.push((name, block.at, what));
                    return false;
                }
                if block.at != end {
                    let what = format!("no good block up to byte {}", block.at);
                    found.push((name, end, what));
                } else if before.is_some_and(|crc| crc != block.link) {
                    let what = format!("blocks between epochs {last} and {} lack", block.epoch);
                    found.push((name, block.at, what));
                }
                (before, last) = (Some(block.crc), block.epoch);
                end = next_block(block.at, block.len as u64);
                true
            });
            let is_first = superblock.filter(|s| s.journal_generation == part.generation);
            let floor = is_first.map_or(0, |s| s.journal_floor);
            let file = opened.iter().flatten().find(|o| o.name == name);
            if end < floor {
                found.push((name, end, format!("{floor} bytes of it were durable")));
            } else if file.is_some_and(|f| f.is_broken_block(uuid, part.generation, last, end)) {
                let what = "a block that is damaged, or was torn by a crash, which costs nothing";
                found.push((name, end, what.to_owned()));
            }
            generation_before = Some(part.generation);
        }
        for (name, offset, what) in found {
            self.find(findings, name, offset, what);
        }
    }
}

/// The uuid that the journal headers say, if they say one.
pub(super) fn uuid_of(opened: &[Option<OpenedJournal>; 2]) -> Option<[u8; 16]> {
    let headers = opened.iter().flatten().filter_map(|opened| opened.header);
    headers.max_by_key(|header| header.generation).map(|header| header.uuid)
}

/// Whether there is a byte of journal that cannot be read without a uuid.
pub(super) fn is_worth_a_uuid(opened: &[Option<OpenedJournal>; 2]) -> bool {
    opened.iter().flatten().any(|opened| !is_blank(opened))
}

impl From<&Finding> for Error {
    fn from(finding: &Finding) -> Self {
        let Finding { file, offset, what } = finding.clone();
        Error::Corrupt { file, offset, what }
    }
}
