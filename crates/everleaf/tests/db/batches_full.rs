//! Random batches in pools that are nearly full: each happens as a whole, or is refused before its first
//! change; never does one that has begun fail for want of room, which would stop all writes.
//!
//! `EVERLEAF_SCALE` sets how many batches of each kind run (120), `EVERLEAF_SEED` the random numbers.

use std::collections::BTreeMap;

use everleaf::{Db, Error, Options, Tree};
use everleaf_testing::{Rng, seed_or, times, vecs};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The kind of keys and values that one pool has.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// Short keys, values of all lengths that an entry holds.
    Short,
    /// Up to what a node keeps whole, with prefixes that are lost when neighbours even out.
    Prefixes,
    /// Ascending in some places: nodes that are filled at their ends, and then changed inside.
    Runs,
    /// Pairs with short values, which get long ones: their leaves become fuller though no pair comes.
    Growing,
    /// Longer than a node keeps whole: records, long fences, extents.
    Long,
    /// Short pairs that come between such long keys: the bounds of what they split are long, they are not.
    Between,
}

/// The keys that fill the pool.
fn standing(rng: &mut Rng, style: Style) -> Vec<u8> {
    match style {
        Style::Between => {
            let stem = [&[b'l'; 700][..], &[]][rng.below(2) as usize];
            [stem, &rng.below(500).to_be_bytes()[6..]].concat()
        }
        _ => key(rng, style),
    }
}

fn key(rng: &mut Rng, style: Style) -> Vec<u8> {
    match style {
        Style::Short | Style::Growing => {
            (rng.below(3000) as u16).to_be_bytes()[..].repeat(1 + rng.below(3) as usize)
        }
        Style::Prefixes => {
            let stem = [b'a' + rng.below(6) as u8; 40];
            let mut key = stem[..1 + rng.below(2) as usize * 39].to_vec();
            key.extend(format!("{:03}", rng.below(400)).into_bytes());
            key.resize(key.len() + rng.below(20) as usize, b'x');
            key
        }
        Style::Runs => {
            let (place, at) = (rng.below(12), rng.below(400));
            let mut key = format!("{place:02}/{at:05}").into_bytes();
            key.resize(key.len() + (at % 7) as usize * 6, b'r');
            key
        }
        // Some are put between two that begin with the same 700 bytes.
        Style::Between => [&b"l"[..], b"m", &[]][rng.below(3) as usize]
            .iter()
            .chain(&rng.below(500).to_be_bytes()[6..])
            .copied()
            .collect(),
        Style::Long => {
            let stem = [0, 30, 90, 90, 700][rng.below(5) as usize];
            let mut key = vec![b'l'; stem];
            key.extend(rng.below(500).to_be_bytes()[6..].iter());
            key
        }
    }
}

fn value(rng: &mut Rng, style: Style) -> Vec<u8> {
    let len = match (style, rng.below(20)) {
        (Style::Long, 0) => 1200,
        (Style::Long, 1..6) => 65 + rng.below(300),
        (Style::Growing, _) => rng.below(4),
        (_, 0..8) => rng.below(65),
        (_, 8..14) => 58 + rng.below(7),
        _ => rng.below(12),
    };
    vec![rng.next() as u8; len as usize]
}

/// Ascending keys behind one that is there, one after the other.
fn run_of(rng: &mut Rng, n: u64) -> Vec<Vec<u8>> {
    let (place, from) = (rng.below(12), rng.below(400));
    (0..n).map(|i| format!("{place:02}/{from:05}/{i:04}").into_bytes()).collect()
}

/// Fills the pool with single puts until there is no room, and takes a few pairs out again.
fn fill(tree: &Tree, model: &mut Model, rng: &mut Rng, style: Style) {
    let mut refused = 0;
    while refused < 3 {
        let (key, value) = (standing(rng, style), value(rng, style));
        match tree.put(&key, &value) {
            Ok(()) => drop(model.insert(key, value)),
            Err(Error::Full { .. }) => refused += 1,
            Err(error) => panic!("{style:?}: {error}"),
        }
    }
}

fn free_some(db: &Db, tree: &Tree, model: &mut Model, rng: &mut Rng) {
    let most = rng.pick(&[1, 4, 20, 60]);
    let from = rng.below(model.len() as u64 + 1) as usize;
    let keys: Vec<_> = model.keys().skip(from).take(most).cloned().collect();
    for key in keys {
        tree.delete(&key).unwrap();
        model.remove(&key);
    }
    // Freed space is given out again when the freeing is durable.
    db.sync().unwrap();
}

fn batches(style: Style, max_bytes: u64, seed: u64) -> (u64, u64) {
    let mut rng = Rng(seed);
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().page_bytes(512).max_bytes(max_bytes).background(false);
    let db = options.open(dir.path().join("p.ever")).unwrap();
    let tree = db.tree("t").unwrap();
    let (mut model, mut whole, mut refused) = (Model::new(), 0, 0);
    for round in 0..times(120) {
        let what = format!("{style:?}, EVERLEAF_SEED={seed}, batch {round}");
        if round % 8 == 0 {
            fill(&tree, &mut model, &mut rng, style);
        }
        free_some(&db, &tree, &mut model, &mut rng);
        let (mut batch, mut after) = (db.batch(), model.clone());
        let n = 2 + rng.pick(&[2, 6, 30]) * rng.below(3);
        let mut keys: Vec<_> = (0..n).map(|_| key(&mut rng, style)).collect();
        if matches!(style, Style::Runs) && rng.one_in(2) {
            keys = run_of(&mut rng, n);
            if rng.one_in(2) {
                keys.reverse();
            }
        }
        if matches!(style, Style::Growing) {
            // In each leaf one or two, or some in a row.
            let (from, n) = (rng.below(after.len() as u64) as usize, 2 * n as usize);
            let step = rng.pick(&[1, after.len() / n, after.len() / n]).max(1);
            let from = if step > 1 { from % step } else { from };
            keys = after.keys().skip(from).step_by(step).take(n).cloned().collect();
        }
        for key in keys {
            let known = after.range(key.clone()..).next().map(|pair| pair.0.clone());
            match rng.below(8) {
                0 => {
                    let key = known.unwrap_or(key);
                    batch.delete(&tree, &key).unwrap();
                    after.remove(&key);
                }
                // A longer value for a key that is there makes its leaf fuller, too.
                n => {
                    let key = if n < 3 { known.unwrap_or(key) } else { key };
                    let mut value = value(&mut rng, style);
                    if matches!(style, Style::Growing) {
                        value.resize(64, 7);
                    }
                    batch.put(&tree, &key, &value).unwrap();
                    after.insert(key, value);
                }
            }
        }
        match batch.commit() {
            Ok(()) => (whole, model) = (whole + 1, after),
            Err(Error::Full { .. }) => refused += 1,
            Err(error) => panic!("{what}: {error}"),
        }
        if let Err(error) = db.sync() {
            panic!("{what}: a batch that had begun has failed: {error}");
        }
        if round % 20 == 0 {
            let found: Model = tree.iter().map(|pair| vecs(pair.unwrap())).collect();
            assert!(found == model, "{what}");
            assert_eq!(db.check().unwrap(), [], "{what}");
        }
    }
    (whole, refused)
}

#[test]
fn a_batch_that_begins_never_fails_for_want_of_room() {
    let seed = seed_or(1);
    for style in
        [Style::Short, Style::Prefixes, Style::Runs, Style::Growing, Style::Long, Style::Between]
    {
        // One group of pages for nodes and records; with long keys also one of extents.
        let has_long = matches!(style, Style::Long | Style::Between);
        let max_bytes = if has_long { 300_000 } else { 60_000 };
        let (whole, refused) = batches(style, max_bytes, seed);
        println!("{style:?}: {whole} happened, {refused} were refused");
        assert!(whole > 0 && refused > 0, "{style:?}: {whole} happened, {refused} were refused");
    }
}
