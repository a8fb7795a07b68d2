//! Values of random sizes are replaced for a long time, and the file stays in proportion to what is alive.
//!
//! `EVERLEAF_SCALE` says for how long, and before a release there are ten times as many values (else 40,000, about
//! 130 MiB). `EVERLEAF_SEED` replays the choices.

use std::time::{Duration, Instant};

use everleaf::{Db, Options};
use everleaf_testing::{Rng, count, seed_or, size};

const JOURNAL: u64 = 8 << 20;
/// Bytes that a file may have beside its share: its journal, and four times the large values that may be written
/// between two checkpoints of a small pool: those that came before the last one and while it ran, as much
/// that it moved, and what the file has not been cut by.
const BESIDE: u64 = 2 * JOURNAL + (4 * (48 << 20));

/// Few are long, most are short.
fn random_len(rng: &mut Rng) -> usize {
    let most = [100, 100, 600, 4000, 30_000][rng.below(5) as usize];
    rng.below(most) as usize
}

fn length(db: &Db) -> u64 {
    db.stats().expect("sound").file_bytes
}

#[test]
fn the_file_stays_in_proportion_to_what_is_alive() {
    let seed = seed_or(3);
    println!("EVERLEAF_SEED={seed}");
    let time = Duration::from_secs(count(3, 60));
    let keys = size([40_000, 40_000, 400_000]);
    let mut rng = Rng(seed);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let options = Options::new().journal_bytes(JOURNAL);
    let db = options.open(&path).expect("new");
    let tree = db.tree("t").expect("new");
    let mut lens = vec![0_usize; keys as usize];
    let mut live = 0;
    let (start, mut most, mut puts) = (Instant::now(), 0.0_f64, 0_u64);
    let mut looked = start;
    while start.elapsed() < time {
        for _ in 0..500 {
            let (i, len) = (if puts < keys { puts } else { rng.below(keys) }, random_len(&mut rng));
            tree.put(i.to_be_bytes(), vec![i as u8; len]).expect("space");
            live = live + len - lens[i as usize];
            lens[i as usize] = len;
            puts += 1;
        }
        if puts > keys && looked.elapsed() > Duration::from_millis(100) {
            looked = Instant::now();
            let data = length(&db).saturating_sub(BESIDE);
            let ratio = data as f64 / (live as u64 + 20 * keys) as f64;
            if ratio > most {
                let stats = db.stats().expect("sound");
                let [file, alive, free, journal] = [
                    stats.file_bytes,
                    stats.live_bytes,
                    stats.free_bytes,
                    stats.journal_file_bytes,
                ]
                .map(|n| n >> 20);
                println!(
                    "{ratio:.2}: {file} MiB, {alive} alive, {free} free, {journal} of journal"
                );
            }
            most = most.max(ratio);
        }
    }
    println!(
        "{puts} puts, {} MiB alive, {} MiB long, {most:.2} at most",
        live >> 20,
        length(&db) >> 20
    );
    assert!(most <= 2.2, "the file was {most:.2} times as long as what was alive");
    for i in 0..keys.min(puts) {
        let value = tree.get(i.to_be_bytes()).expect("sound").expect("there");
        assert!(value.len() == lens[i as usize] && value.iter().all(|byte| *byte == i as u8));
    }
    assert_eq!(db.check().expect("read"), []);
    db.compact().expect("no fault");
    drop(tree);
    db.close().expect("no fault");
    let closed = std::fs::metadata(&path).expect("there").len();
    assert!(closed <= live as u64 * 13 / 10 + (4 << 20), "{closed} bytes for {live} alive");
}
