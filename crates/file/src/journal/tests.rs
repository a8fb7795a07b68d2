use std::path::Path;

use crate::io::{Access, Fault, Io, SimIo};
use everleaf_pmem::error::Result;

use super::*;

mod crashes;

const FILE: &str = "pool";
const UUID: [u8; 16] = [7; 16];

/// The blocks of an epoch, each with its place.
type Blocks = Vec<(u64, Vec<u8>)>;

fn key() -> BlockKey {
    BlockKey::new(&UUID)
}

fn record(tag: u8, page: u32, seq: u32, bytes: &[u8]) -> Vec<u8> {
    let mut record = vec![tag];
    record.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    record.extend_from_slice(&page.to_le_bytes());
    record.extend_from_slice(&seq.to_le_bytes());
    record.extend_from_slice(bytes);
    record
}

fn records(page: u32, lens: &[usize]) -> Vec<u8> {
    lens.iter().enumerate().flat_map(|(i, &n)| record(1, page, i as u32, &vec![9; n])).collect()
}

/// Writes a chain as the medium does.
#[derive(Clone)]
struct Writer {
    at: Position,
    generation: u32,
    epoch: u64,
    free: Vec<u32>,
    /// Bytes of payload that a block has at most.
    most: usize,
}

impl Writer {
    fn new() -> Self {
        let at = Position { place: 2 * BLOCK_ALIGN, number: 1, link: 0, next_extent: 1 };
        Self { at, generation: 1, epoch: 0, free: (2..24).rev().collect(), most: usize::MAX }
    }

    fn epoch(&mut self, mut records: &[u8]) -> Blocks {
        let (mut blocks, mut piece) = (Vec::new(), 0);
        self.epoch += 1;
        loop {
            let at = &mut self.at;
            let mut n = 0;
            if !at.place.is_multiple_of(EXTENT_BYTES) {
                n = cut(records, payload_room(at.place).min(self.most));
            }
            if n == 0 {
                at.place = start_of(at.next_extent);
                at.next_extent = self.free.pop().expect("a free extent");
                n = cut(records, payload_room(at.place).min(self.most));
            }
            assert!(n > 0, "no record is so long");
            let mut block = vec![0; BLOCK_HEAD];
            block.extend_from_slice(&records[..n]);
            let facts = BlockFacts {
                number: at.number,
                epoch: self.epoch,
                ends_epoch: n == records.len(),
                place: at.place,
                next_extent: at.next_extent,
                generation: self.generation,
                link: at.link,
                piece,
            };
            at.link = key().seal(&mut block, &facts);
            blocks.push((at.place, block));
            (at.place, at.number, piece) = (next_block(at.place, n), at.number + 1, piece + 1);
            records = &records[n..];
            if records.is_empty() {
                return blocks;
            }
        }
    }

    /// Goes on where a scan ended, as the next open does.
    fn reopen(&mut self, scan: &JournalScan) {
        self.at = scan.end;
        self.generation += 1;
        self.epoch = self.epoch.max(scan.last_epoch);
        let is_free = |e: &u32| !scan.extents.contains(e) && *e != scan.end.next_extent;
        self.free = (1..24).rev().filter(is_free).collect();
    }
}

struct Disk(SimIo);

impl Disk {
    fn new() -> Self {
        let disk = Self(SimIo::new(1));
        disk.0.truncate(Path::new(FILE), 24 * EXTENT_BYTES);
        disk.0.poke(Path::new(FILE), 0, &[1; 8192]);
        disk
    }

    fn put(&self, blocks: &Blocks) {
        blocks.iter().for_each(|(place, block)| self.0.poke(Path::new(FILE), *place, block));
    }

    fn wipe(&self, block: &(u64, Vec<u8>)) {
        self.0.poke(Path::new(FILE), block.0, &vec![0; block.1.len()]);
    }

    fn flip(&self, at: u64) {
        let byte = self.0.peek(Path::new(FILE)).expect("the file")[at as usize];
        self.0.poke(Path::new(FILE), at, &[byte ^ 4]);
    }

    fn scan_from(
        &self,
        from: &Position,
        floor: u64,
        after: u64,
        generation: u32,
    ) -> Result<JournalScan> {
        let file = self.0.open(Path::new(FILE), Access::Read).expect("open");
        scan(&*file, key(), from, floor, after, generation, &mut |_, _| Ok(true))
    }

    fn scan(&self, generation: u32) -> Result<JournalScan> {
        self.scan_from(&Writer::new().at, 0, 0, generation)
    }

    /// When a second open has gone on where the scan of the first one's chain ended.
    fn scan_behind(&self, first: &JournalScan) -> Result<JournalScan> {
        self.scan_from(&Writer::new().at, first.end.number, 0, 2)
    }

    /// The last epoch that is found.
    fn last(&self) -> u64 {
        self.scan(1).expect("no damage").last_epoch
    }

    fn is_damaged(&self) -> bool {
        match self.scan(1) {
            Err(Error::Corrupt { .. }) => true,
            Err(other) => panic!("{other}"),
            Ok(_) => false,
        }
    }
}

fn payloads(blocks: &Blocks) -> Vec<u8> {
    blocks.iter().flat_map(|(_, block)| block[BLOCK_HEAD..].to_vec()).collect()
}

#[test]
fn epochs_over_several_extents_are_read_again() {
    let (disk, mut writer, mut all, mut places) = (Disk::new(), Writer::new(), vec![], vec![]);
    for i in 0..8 {
        let bytes = records(i, &[60_000; 8]);
        let blocks = writer.epoch(&bytes);
        assert_eq!(payloads(&blocks), bytes, "cut between records");
        places.push(blocks[0].0);
        disk.put(&blocks);
        all.extend(bytes);
    }
    let scan = disk.scan(1).expect("good");
    assert_eq!((&scan.bytes, scan.end, scan.last_epoch), (&all, writer.at, 8));
    assert_eq!((scan.generation, scan.last_block), (1, places[7]));
    assert_eq!(scan.extents, (0..scan.extents.len() as u32).collect::<Vec<_>>());
    assert!(scan.extents.len() > 3);
    let file = disk.0.peek(Path::new(FILE)).expect("the file");
    let mut seen = 0;
    scan.walk(|r| {
        let place = scan.place_of(r.at) as usize;
        assert_eq!(file[place..place + RECORD_HEAD], all[r.at..r.at + RECORD_HEAD]);
        assert_eq!((u64::from(r.page) + 1, r.tag, r.bytes.len()), (r.epoch, 1, 60_000));
        seen += 1;
        Ok(())
    })
    .expect("whole records");
    assert_eq!(seen, 64);
}

#[test]
fn records_are_cut_between_records() {
    let bytes = records(0, &[10, 20, 0]);
    let ends = [21, 52, 63];
    for room in 0..80 {
        let most = ends.iter().rev().find(|&&end| end <= room);
        assert_eq!(cut(&bytes, room), most.copied().unwrap_or(0), "room {room}");
    }
}

/// A chain of one durable epoch, and one of several pieces in three extents.
fn tail() -> (Disk, Writer, Blocks) {
    let (disk, mut writer) = (Disk::new(), Writer::new());
    disk.put(&writer.epoch(&records(0, &[100])));
    writer.most = 300_000;
    let blocks = writer.epoch(&records(1, &[50_000; 30]));
    writer.most = usize::MAX;
    (disk, writer, blocks)
}

#[test]
fn each_subset_of_a_torn_epoch_is_a_torn_tail() {
    let (_, _, blocks) = tail();
    assert!(blocks.len() >= 5 && blocks.last().expect("blocks").0 > 1 << 20);
    for lost in 0..1_u32 << blocks.len() {
        let (disk, _, blocks) = tail();
        for (i, block) in blocks.iter().enumerate() {
            if lost >> i & 1 == 0 {
                disk.put(&vec![block.clone()]);
            }
        }
        assert_eq!(disk.last(), if lost == 0 { 2 } else { 1 }, "lost {lost:b}");
    }
}

#[test]
fn a_torn_block_of_any_length_is_a_torn_tail() {
    for i in 0..tail().2.len() {
        for n in [0, 4, 8, 56, 60, 63, 64, 65, 512, 4096, 49_999] {
            let (disk, _, mut blocks) = tail();
            blocks[i].1.truncate(n);
            disk.put(&blocks);
            assert_eq!(disk.last(), 1, "block {i} has {n} bytes");
        }
    }
}

#[test]
fn a_later_epoch_proves_damage() {
    // In the middle of the last extent of the epoch before.
    for far in [false, true] {
        for lost in 0..tail().2.len() {
            let (disk, mut writer, blocks) = tail();
            disk.put(&blocks);
            if far {
                // At the start of another extent, in whose middle the evidence is as well.
                writer.at.place = (writer.at.place).next_multiple_of(EXTENT_BYTES);
            }
            let mut later = writer.epoch(&records(2, &[100]));
            later[0].1.truncate(BLOCK_HEAD + 5);
            disk.put(&later);
            assert_eq!(disk.last(), 2, "only the last is torn");
            for byte in [9, 70] {
                disk.flip(blocks[lost].0 + byte);
                assert!(disk.is_damaged(), "byte {byte} of block {lost}, far {far}");
                disk.put(&blocks);
            }
            disk.wipe(&blocks[lost]);
            assert!(disk.is_damaged(), "block {lost} is lost, far {far}");
        }
    }
}

#[test]
fn a_later_block_in_the_place_of_an_earlier_one_proves_damage() {
    let (disk, mut writer, blocks) = tail();
    disk.put(&blocks);
    let later = writer.epoch(&records(2, &[100]));
    disk.put(&vec![(blocks[0].0, later[0].1.clone())]);
    assert!(disk.is_damaged());
}

#[test]
fn the_floor_and_the_last_epoch_are_minded() {
    let (disk, writer, blocks) = tail();
    disk.put(&blocks);
    let from = Writer::new().at;
    let last = |floor, after, generation| {
        disk.scan_from(&from, floor, after, generation).map(|scan| scan.last_epoch)
    };
    assert_eq!(last(writer.at.number, 0, 1).expect("all there"), 2);
    assert!(last(writer.at.number + 1, 0, 1).is_err(), "one more was durable");
    assert!(last(0, 0, 0).is_err(), "of a later open than any");
    assert_eq!(last(0, 1, 1).ok(), None, "epoch 1 is stale, and epoch 2 proves that it is missed");
    let disk = Disk::new();
    disk.put(&Writer::new().epoch(&records(0, &[100])));
    let scan = disk.scan_from(&from, 0, 1, 1).expect("left by an earlier open");
    assert_eq!((scan.last_epoch, scan.end, scan.extents), (0, from, vec![0]));
}

#[test]
fn adopted_images_that_are_bad_make_a_torn_tail() {
    let from = Writer::new().at;
    for later in [false, true] {
        let (disk, mut writer) = (Disk::new(), Writer::new());
        disk.put(&writer.epoch(&records(0, &[100])));
        disk.put(&writer.epoch(&record(TAG_ADOPT, 5, 2, &[3; 32])));
        let end = writer.at;
        if later {
            let mut blocks = writer.epoch(&records(2, &[100]));
            blocks[0].1.truncate(BLOCK_HEAD);
            disk.put(&blocks);
        }
        let file = disk.0.open(Path::new(FILE), Access::Read).expect("open");
        let scan = |good, floor| {
            scan(&*file, key(), &from, floor, 0, 1, &mut |places, page| {
                assert_eq!((places, page), (&[3; 32][..], 5));
                Ok(good)
            })
        };
        assert_eq!(scan(true, 0).expect("good").end, end);
        assert_eq!(scan(false, 0).map(|s| s.last_epoch).ok(), (!later).then_some(1));
        // A checkpoint knew of it, and what it adopted may be gone since: a reader finds out.
        assert_eq!(scan(false, end.number).expect("durable").last_epoch, 2);
        assert!(scan(false, end.number + 1).is_err(), "a block that was durable is missing");
    }
}

#[test]
fn blocks_of_another_pool_do_not_count_and_bad_links_are_damage() {
    let (disk, mut writer) = (Disk::new(), Writer::new());
    disk.put(&writer.epoch(&records(0, &[100])));
    let good = writer.clone();
    let mut other = writer.epoch(&records(1, &[100]));
    let (mut facts, _) = key().head(&other[0].1).expect("a head");
    BlockKey::new(&[8; 16]).seal(&mut other[0].1, &facts);
    disk.put(&other);
    assert_eq!(disk.last(), 1);
    facts.link ^= 1;
    key().seal(&mut other[0].1, &facts);
    disk.put(&other);
    assert!(disk.is_damaged(), "the same open wrote another block before it");
    (facts.generation, facts.piece) = (2, 1);
    key().seal(&mut other[0].1, &facts);
    disk.put(&other);
    assert_eq!(disk.last(), 1, "a later open has begun its torn epoch earlier");
    facts.piece = 0;
    key().seal(&mut other[0].1, &facts);
    disk.put(&other);
    assert!(disk.is_damaged(), "a later open found another block before it");
    (facts.generation, facts.link) = (0, good.at.link);
    key().seal(&mut other[0].1, &facts);
    disk.put(&other);
    assert_eq!(disk.last(), 1, "an earlier open wrote it");
}

/// A write that found no room is made again, with more records, and a crash may keep the first one.
#[test]
fn a_block_that_was_written_again_is_a_torn_tail() {
    let (disk, mut writer) = (Disk::new(), Writer::new());
    disk.put(&writer.epoch(&records(0, &[100])));
    let mut first = writer.clone();
    (first.most, writer.most) = (150, 250);
    let first = first.epoch(&records(1, &[100, 100]));
    let again = writer.epoch(&records(1, &[100, 100, 100, 100]));
    assert_eq!((first.len(), again.len()), (2, 2));
    disk.put(&again);
    assert_eq!(disk.last(), 2);
    disk.put(&first[..1].to_vec());
    assert_eq!(disk.last(), 1);
    disk.put(&writer.epoch(&records(2, &[100])));
    assert!(disk.is_damaged(), "all of that epoch was durable");
}

/// The same block, as another pool would have written it.
fn of_another_pool(block: &(u64, Vec<u8>)) -> Vec<u8> {
    let (facts, _) = key().head(&block.1).expect("a head");
    let mut bytes = block.1.clone();
    BlockKey::new(&[8; 16]).seal(&mut bytes, &facts);
    bytes
}

#[test]
fn a_block_of_another_pool_at_the_start_of_an_extent_is_damage() {
    let poke = |disk: &Disk, at: u64, bytes: &[u8]| disk.0.poke(Path::new(FILE), at, bytes);
    let (disk, mut writer) = (Disk::new(), Writer::new());
    writer.at = Position::begin(3, 1, 0);
    let from = writer.at;
    let scan = |disk: &Disk| disk.scan_from(&from, 1, 0, 1);
    let blocks = writer.epoch(&records(0, &[100]));
    let other = of_another_pool(&blocks[0]);
    assert_eq!(scan(&disk).expect("nothing was written").last_epoch, 0);
    poke(&disk, start_of(3), &other);
    assert!(matches!(scan(&disk), Err(Error::Corrupt { .. })), "what was there is gone");
    // A torn write of this pool, over an older block of this pool.
    let mut torn = blocks[0].1.clone();
    torn[32..48].fill(7);
    poke(&disk, start_of(3), &torn);
    assert_eq!(scan(&disk).expect("a torn tail").last_epoch, 0);
    // A head without its payload proves nothing.
    let mut half = other.clone();
    half[BLOCK_HEAD + 50] ^= 1;
    poke(&disk, start_of(3), &half);
    assert_eq!(scan(&disk).expect("a torn tail").last_epoch, 0);
    // The same bytes in a value: they come behind an image's head, but maybe where a block may be.
    disk.put(&blocks);
    poke(&disk, writer.at.place, &other);
    assert_eq!(scan(&disk).expect("a torn tail").last_epoch, 1);
    // Where the chain goes on when this extent is full.
    poke(&disk, start_of(writer.at.next_extent), &other);
    assert!(matches!(scan(&disk), Err(Error::Corrupt { .. })));
}

#[test]
fn an_extent_of_another_pool_is_damage_also_behind_its_start() {
    let (disk, mut writer) = (Disk::new(), Writer::new());
    writer.at = Position::begin(3, 1, 0);
    let blocks = writer.epoch(&records(0, &[100]));
    disk.put(&blocks);
    let from = writer.at;
    let scan = |disk: &Disk| disk.scan_from(&from, from.number, 1, 1);
    assert_eq!(scan(&disk).expect("nothing behind it").end, from);
    disk.flip(blocks[0].0 + 20);
    assert_eq!(scan(&disk).expect("nobody needs it").end, from);
    disk.0.poke(Path::new(FILE), blocks[0].0, &of_another_pool(&blocks[0]));
    assert!(matches!(scan(&disk), Err(Error::Corrupt { .. })));
}

#[test]
fn hostile_blocks_are_refused_without_a_panic() {
    let good = Writer::new().epoch(&records(0, &[100]));
    let (facts, _) = key().head(&good[0].1).expect("a head");
    let sealed = |change: &dyn Fn(&mut BlockFacts)| {
        let (mut block, mut facts) = (good[0].1.clone(), facts);
        change(&mut facts);
        key().seal(&mut block, &facts);
        let disk = Disk::new();
        disk.put(&vec![(good[0].0, block)]);
        disk
    };
    assert_eq!(sealed(&|_| ()).last(), 1);
    assert!(sealed(&|f| f.piece = 3).is_damaged());
    assert!(sealed(&|f| f.next_extent = u32::MAX).scan(1).is_ok(), "beyond the file");
    assert!(sealed(&|f| f.next_extent = 0).is_damaged(), "the superblock is there");
    assert!(sealed(&|f| f.generation = u32::MAX).is_damaged());
    assert_eq!(sealed(&|f| f.place += BLOCK_ALIGN).last(), 0);
    assert!(sealed(&|f| (f.number, f.piece) = (u64::MAX, u32::MAX)).is_damaged());
    for len in [0, 110, 112, 1 << 20, u32::MAX] {
        let mut block = good[0].1.clone();
        block[24..28].copy_from_slice(&len.to_le_bytes());
        let crc = key().head_crc(&block);
        block[56..60].copy_from_slice(&crc.to_le_bytes());
        let disk = Disk::new();
        disk.put(&vec![(good[0].0, block)]);
        assert_eq!(disk.last(), 0, "{len} bytes");
    }
    let from = |place, next_extent| Position { place, number: 1, link: 0, next_extent };
    for (place, next_extent) in
        [(0, 1), (4096, 1), (8193, 1), (8192, 0), (1 << 20, 0), (8192 + (3 << 20), 3)]
    {
        assert!(Disk::new().scan_from(&from(place, next_extent), 0, 0, 9).is_err());
    }
    for place in [u64::MAX - 4095, 24 << 20, 1 << 40] {
        let _ = Disk::new().scan_from(&from(place, u32::MAX), 0, 0, 9);
    }
    let malformed = sealed(&|_| ());
    let mut writer = Writer::new();
    let mut blocks = writer.epoch(&record(1, 0, 0, &[]));
    blocks[0].1.push(1);
    key().seal(&mut blocks[0].1, &facts);
    malformed.put(&blocks);
    let scan = malformed.scan(1);
    assert!(scan.is_err() || scan.is_ok_and(|scan| scan.walk(|_| Ok(())).is_err()));
}

#[test]
fn a_chain_that_goes_in_a_circle_is_refused() {
    for (back, is_circle) in [(1, true), (2, true), (3, false)] {
        let (disk, mut writer) = (Disk::new(), Writer::new());
        writer.free = vec![back, 2];
        for i in 0..3 {
            disk.put(&writer.epoch(&records(i, &[100])));
            writer.at.place = writer.at.place.next_multiple_of(EXTENT_BYTES);
        }
        assert_eq!(disk.scan(1).is_err(), is_circle, "extent {back}");
    }
}

#[test]
fn a_longer_record_moves_the_rewritten_block_to_the_next_extent() {
    // The torn epoch begins in this extent, the one that is written over it does not fit.
    let (disk, mut writer) = (Disk::new(), Writer::new());
    disk.put(&writer.epoch(&records(0, &[50_000; 20])));
    assert!(writer.at.place < EXTENT_BYTES && payload_room(writer.at.place) < 60_000);
    let mut torn = writer.epoch(&records(1, &[100, 60_000]));
    assert!(torn.len() == 2 && torn[0].0 < EXTENT_BYTES && torn[1].0 == EXTENT_BYTES);
    torn.truncate(1);
    disk.put(&torn);
    let before = disk.scan(1).expect("a torn tail");
    writer.reopen(&before);
    disk.put(&writer.epoch(&records(2, &[60_000])));
    assert_eq!(disk.scan_behind(&before).expect("good").end, writer.at);
}

#[test]
fn a_torn_epoch_that_is_whole_later_stays_lost() {
    // The file ends within the last zeros of the block.
    let (disk, mut writer, blocks) = tail();
    let whole = writer.epoch(&[records(2, &[100]), record(1, 0, 0, &[0; 9])].concat());
    let (place, block) = &whole[0];
    disk.put(&blocks);
    disk.put(&vec![(*place, block[..block.len() - 9].to_vec())]);
    disk.0.truncate(Path::new(FILE), place + block.len() as u64 - 9);
    let before = disk.scan(1).expect("a torn tail");
    assert_eq!(before.last_epoch, 2);
    // The next open writes there. Of that comes only the length.
    disk.0.truncate(Path::new(FILE), place + BLOCK_ALIGN);
    assert_eq!(disk.last(), 3, "it is whole now");
    let scan = disk.scan_behind(&before).expect("a torn tail");
    assert_eq!((scan.last_epoch, scan.end), (2, before.end));
    // And what it did write counts.
    writer.reopen(&before);
    writer.epoch = before.last_epoch;
    disk.put(&writer.epoch(&records(3, &[100])));
    assert_eq!(disk.scan_behind(&before).expect("good").last_epoch, 3);
}

#[test]
fn an_epoch_whose_sync_failed_is_not_taken_from_memory() {
    let (disk, mut writer, blocks) = tail();
    let file = disk.0.open(Path::new(FILE), Access::Write).expect("open");
    for (place, block) in &blocks {
        file.write_at(block, *place).expect("write");
    }
    assert_eq!(disk.last(), 2, "it is written, and may yet be synced");
    disk.0.fail_at(disk.0.calls(), Fault::LostSync);
    file.sync_data().expect_err("the sync fails");
    assert_eq!(disk.last(), 1);
    disk.put(&writer.epoch(&records(2, &[100])));
    assert!(disk.is_damaged(), "a later epoch was written, so this one was durable");
}

#[test]
fn evidence_is_found_behind_a_long_epoch() {
    // The later block is in the middle of the last of four extents, whose start is a piece.
    let (mut writer, bytes) = (Writer::new(), records(1, &[50_000; 70]));
    let blocks = writer.epoch(&bytes);
    let later = writer.epoch(&records(2, &[100]));
    assert!(blocks.len() == 4 && later[0].0 > 3 * EXTENT_BYTES + BLOCK_ALIGN);
    for lost in 0..blocks.len() {
        let disk = Disk::new();
        disk.put(&blocks);
        disk.put(&later);
        assert_eq!(disk.last(), 2);
        disk.wipe(&blocks[lost]);
        assert!(disk.is_damaged(), "block {lost} is lost");
    }
}

/// The last block of an epoch with another head: what makes a piece of it, say.
fn reseal(block: &mut (u64, Vec<u8>), change: impl FnOnce(&mut BlockFacts)) {
    let (mut facts, _) = key().head(&block.1).expect("a head");
    change(&mut facts);
    key().seal(&mut block.1, &facts);
}

#[test]
fn pieces_without_the_end_of_their_epoch_are_a_torn_tail() {
    let (disk, mut writer, mut blocks) = tail();
    let start = writer.clone();
    let end = blocks.last_mut().expect("several");
    reseal(end, |facts| facts.ends_epoch = false);
    disk.put(&blocks);
    let scan = disk.scan(1).expect("a torn tail");
    assert_eq!((scan.last_epoch, scan.pieces.len()), (1, 1));
    assert_eq!(scan.end.number, start.at.number - blocks.len() as u64);
    // There may be more of it than there is memory.
    assert!(scan.bytes.capacity() < 2 * records(0, &[100]).len(), "{}", scan.bytes.capacity());
    // A later open writes the same epoch over it, less of it.
    writer.reopen(&scan);
    writer.epoch = scan.last_epoch;
    let again = writer.epoch(&records(3, &[100]));
    disk.put(&again);
    let scan = disk.scan_behind(&scan).expect("good");
    assert_eq!((scan.last_epoch, scan.end), (2, writer.at));
    assert_eq!(scan.bytes, [records(0, &[100]), records(3, &[100])].concat());
}

#[test]
fn an_epoch_may_end_with_a_block_without_records() {
    let (disk, mut writer, mut blocks) = tail();
    reseal(blocks.last_mut().expect("several"), |facts| facts.ends_epoch = false);
    disk.put(&blocks);
    let (mut at, pieces) = (writer.at, blocks.len() as u32);
    let mut end = (at.place, vec![0; BLOCK_HEAD]);
    let facts = BlockFacts {
        number: at.number,
        epoch: writer.epoch,
        ends_epoch: true,
        place: at.place,
        next_extent: at.next_extent,
        generation: 1,
        link: at.link,
        piece: pieces,
    };
    // That of the block before, which has changed.
    at.link = u32_at(&blocks[pieces as usize - 1].1, 4);
    key().seal(&mut end.1, &BlockFacts { link: at.link, ..facts });
    let torn = end.clone();
    disk.put(&vec![end.clone()]);
    let scan = disk.scan(1).expect("good");
    assert_eq!((scan.last_epoch, scan.end.number), (2, at.number + 1));
    assert_eq!(scan.bytes, [records(0, &[100]), records(1, &[50_000; 30])].concat());
    scan.walk(|record| {
        assert!(scan.place_of(record.at) > 0);
        Ok(())
    })
    .expect("whole records");
    // And the next epoch follows it.
    writer.at = scan.end;
    let later = writer.epoch(&records(2, &[100]));
    disk.put(&later);
    assert_eq!(disk.last(), 3);
    disk.wipe(&later[0]);
    for change in [
        (|facts| facts.piece += 1) as fn(&mut BlockFacts),
        |facts| facts.piece -= 1,
        |facts| facts.piece = 0,
        |facts| facts.epoch += 1,
        |facts| facts.epoch -= 1,
        |facts| facts.generation += 1,
    ] {
        let mut hostile = torn.clone();
        reseal(&mut hostile, change);
        disk.put(&vec![hostile]);
        assert!(disk.is_damaged(), "a piece that does not belong there");
    }
    disk.put(&vec![torn]);
    for lost in &blocks {
        disk.wipe(lost);
        assert_eq!(disk.last(), 1, "a piece is missing");
        disk.put(&vec![lost.clone()]);
    }
    assert_eq!(disk.last(), 2);
}
