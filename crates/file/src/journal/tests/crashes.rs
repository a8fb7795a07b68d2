//! A chain that is cut, read and written further, again and again.

use everleaf_testing::{Rng, seeds, times};

use super::*;

/// The blocks that an open leaves of an epoch that it could not sync.
fn lose(rng: &mut Rng, blocks: Blocks) -> Blocks {
    let mut kept = Vec::new();
    for (place, block) in blocks {
        match rng.below(4) {
            0 => {}
            1 => {
                // Sectors are kept or lost one by one.
                for (i, sector) in block.chunks(512).enumerate() {
                    if rng.one_in(2) {
                        kept.push((place + i as u64 * 512, sector.to_vec()));
                    }
                }
            }
            _ => kept.push((place, block)),
        }
    }
    kept
}

fn random_records(rng: &mut Rng, page: u32) -> Vec<u8> {
    let (n, most) = (1 + rng.below(40), rng.pick(&[10, 300, 4000, 65_535]));
    let lens: Vec<usize> = (0..n).map(|_| rng.below(most + 1) as usize).collect();
    records(page, &lens)
}

/// Opens, writes and crashes again and again, with checkpoints that move the start of the chain, so
/// that extents with stale blocks are used again. The scan must find what was acknowledged, or that
/// and the one epoch more whose sync was not over.
fn crash_again_and_again(seed: u64) {
    let (mut rng, disk, mut writer) = (Rng(seed), Disk::new(), Writer::new());
    let (mut from, mut after, mut floor) = (writer.at, 0, 0);
    // Since `from`.
    let mut acked = Vec::<u8>::new();
    for _ in 0..8 {
        let mut unsynced = Vec::new();
        writer.most = rng.pick(&[70_000, 100_000, usize::MAX]);
        for _ in 0..rng.below(4) {
            let bytes = random_records(&mut rng, seed as u32);
            disk.put(&writer.epoch(&bytes));
            acked.extend(bytes);
        }
        let acked_number = writer.at.number;
        if !rng.one_in(4) {
            unsynced = random_records(&mut rng, 7);
            let blocks = writer.epoch(&unsynced);
            disk.put(&lose(&mut rng, blocks));
        }
        let scan = disk.scan_from(&from, floor, after, writer.generation);
        let scan = scan.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        if scan.bytes != acked {
            acked.extend(unsynced);
            assert!(scan.bytes == acked, "seed {seed}: neither without nor with one epoch more");
        }
        assert!(scan.end.number >= acked_number, "seed {seed}");
        writer.reopen(&scan);
        floor = scan.end.number;
        if rng.one_in(2) {
            (from, after) = (scan.end, after.max(scan.last_epoch));
            acked.clear();
            if rng.one_in(2) {
                // Epochs without changes have no blocks, and a close ends the pool at one of them.
                writer.epoch += 5;
                after = writer.epoch;
            }
        }
    }
}

#[test]
fn crashes_again_and_again_lose_nothing_that_was_acknowledged() {
    for seed in seeds(0..times(150)) {
        crash_again_and_again(seed);
    }
}
