//! Random pools with random damage, salvaged: nothing comes out that was not in, what is untouched
//! does, and nothing is lost in silence.
//!
//! `EVERLEAF_SCALE` says how many pools, `EVERLEAF_SEED` runs one alone.

mod damaged;

use everleaf_testing::{count, seed};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use damaged::{ANCHOR, Files, LeafEntry, MAP, NODE, OLD, Trees, salvage, u32_at, u64_at};
use everleaf::io::SimIo;
use everleaf::{Error, Options};
use everleaf_salvage::Origin;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

type Random = Xoshiro256PlusPlus;

/// A pool, and what it has held.
struct Case {
    files: Files,
    /// The pairs that are durable at the end.
    now: Trees,
    /// Every value that a key of a tree ever had.
    ever: BTreeMap<(String, Vec<u8>), HashSet<Vec<u8>>>,
    is_clean: bool,
    /// Whether pages have been written home.
    has_homes: bool,
}

fn value(random: &mut Random, tree: usize, page: usize, stamp: u32) -> Vec<u8> {
    let len = match random.random_range(0..20) {
        0 => 0,
        1 => random.random_range(page..5 * page),
        2 => random.random_range(0..page),
        _ => random.random_range(6..40),
    };
    let mut bytes = format!("{tree}:{stamp}:").into_bytes();
    bytes.resize(len, b'a' + (stamp % 26) as u8);
    bytes
}

/// Fills a pool. Each tree has keys of its own, unless `keys_are_shared`.
fn build(random: &mut Random, first: char, keys_are_shared: bool) -> Case {
    let page_bytes = [512_u32, 1024, 2048][random.random_range(0..3)];
    let page = page_bytes as usize;
    let io = SimIo::new(random.random());
    // In some pools each write spills the epoch.
    let pending_bytes = if random.random_range(0..3) == 0 { 0 } else { 8 << 20 };
    let options = Options::new().page_bytes(page_bytes).background(false).max_bytes(64 << 20);
    let options = options.pending_bytes(pending_bytes);
    let db = options.open_on(Arc::new(io.clone()), OLD).expect("new");
    let (mut now, mut ever) = (Trees::new(), BTreeMap::<_, HashSet<_>>::new());
    let trees: Vec<_> = (0..random.random_range(1..4))
        .map(|i| db.tree(&format!("{first}{}", ["one", "two", "three"][i])).expect("new"))
        .collect();
    trees.iter().for_each(|tree| drop(now.insert(tree.name().into(), BTreeMap::new())));
    let ops = random.random_range(20..900);
    let mut has_homes = false;
    for stamp in 0..ops {
        let i = random.random_range(0..trees.len());
        let tree = &trees[i];
        let number = random.random_range(0..500) * 7919 % 1000;
        let space = if keys_are_shared { "k".into() } else { format!("{first}{i}") };
        // In extents, in a record, and in the leaf.
        let long = match number % 90 {
            0 => 5 * page / 4,
            1..4 => page / 6,
            4..8 => page / 10,
            _ => 0,
        };
        let long = "x".repeat(long);
        let key = format!("{space}/{number:04}/{long}").into_bytes();
        let map = now.get_mut(tree.name()).expect("made");
        if random.random_range(0..6) == 0 {
            tree.remove(&key).expect("space");
            map.remove(&key);
        } else {
            let value = value(random, i, page, stamp);
            tree.insert(&key, &value).expect("space");
            ever.entry((tree.name().to_owned(), key.clone())).or_default().insert(value.clone());
            map.insert(key, value);
        }
        match random.random_range(0..200) {
            0..20 => db.sync().expect("no fault"),
            20 | 21 => {
                db.checkpoint().expect("no fault");
                has_homes = true;
            }
            _ => {}
        }
    }
    db.sync().expect("no fault");
    let is_clean = random.random_range(0..3) > 0;
    if is_clean {
        drop(trees);
        db.close().expect("no fault");
        has_homes = true;
    } else if pending_bytes == 0 {
        // An epoch that does not end: nothing of it may come out, whatever the journal holds of it.
        for i in 0..random.random_range(0..100) {
            let tree = &trees[i % trees.len()];
            tree.insert(format!("never/{}", i % 40), format!("never {i}")).expect("space");
            if i % 7 == 0 {
                now[tree.name()].keys().take(i).for_each(|key| drop(tree.remove(key)));
            }
        }
    }
    let files = Files::of(&io, page_bytes);
    Case { files, now, ever, is_clean, has_homes }
}

/// The harm that has been done to a pool.
#[derive(Debug, Default)]
struct Harm {
    what: Vec<String>,
    journal: bool,
    /// Whether the end of the journal is gone, of which nothing may say that it was there.
    journal_is_cut: bool,
    supers: usize,
    /// Whether the root or a leaf of the page table is damaged.
    table: bool,
    foreign: bool,
    /// Pages whose checksums were made right after they had been changed.
    forged: bool,
}

fn some_page(files: &Files, random: &mut Random) -> Option<usize> {
    let pages = files.imaged();
    (!pages.is_empty()).then(|| pages[random.random_range(0..pages.len())])
}

fn harm_superblocks(files: &mut Files, random: &mut Random, harm: &mut Harm) {
    let which = random.random_range(0..3);
    if which != 1 {
        files.data[..4096].fill(0);
    }
    if which != 0 {
        files.data[4096..8192].fill(0xff);
    }
    harm.supers += if which == 2 { 2 } else { 1 };
    harm.what.push(format!("superblock {which}"));
}

fn harm_journal(files: &mut Files, random: &mut Random, harm: &mut Harm) {
    let blocks = files.blocks.clone();
    if blocks.is_empty() {
        return;
    }
    let i = random.random_range(0..blocks.len());
    let (at, len) = blocks[i];
    if at + len > files.data.len() {
        return;
    }
    match random.random_range(0..3) {
        0 => files.data[at..at + len].fill(0),
        1 => {
            for (at, len) in &blocks[i..] {
                let end = (at + len).min(files.data.len());
                files.data[*at.min(&end)..end].fill(0);
            }
        }
        _ => {
            let byte = at + random.random_range(0..len);
            files.data[byte] ^= 1 << random.random_range(0..8);
        }
    }
    // Nothing says that the last block was there, if all of it is zero.
    harm.journal_is_cut |= files.data[at..at + 64].iter().all(|byte| *byte == 0);
    harm.journal = true;
    harm.what.push(format!("block {i} of the journal"));
}

fn harm_table(files: &mut Files, random: &mut Random, harm: &mut Harm) {
    let mut images: Vec<_> = files.leaves.values().cloned().collect();
    images.push(files.root.clone());
    let image = images[random.random_range(0..images.len())].clone();
    if image.is_empty() || image.end > files.data.len() {
        return;
    }
    files.data[random.random_range(image.clone())] ^= 1 << random.random_range(0..8);
    harm.table = true;
    harm.what.push(format!("the table at byte {}", image.start));
}

/// Damages the image of a page: a bit, a sector, all of it.
fn harm_page(files: &mut Files, other: &Files, kind: u32, random: &mut Random, harm: &mut Harm) {
    let Some(no) = some_page(files, random) else { return };
    let image = files.image(no).expect("it has one");
    if image.end > files.data.len() {
        return;
    }
    match kind {
        0..4 => {
            // A forged head would be that of another image.
            let from = if harm.forged { image.start + 48 } else { image.start };
            let at = if from < image.end { random.random_range(from..image.end) } else { return };
            files.data[at] ^= 1 << random.random_range(0..8);
            if harm.forged && !harm.table && harm.supers == 0 {
                files.seal(no);
            }
            harm.what.push(format!("bit of page {no}, forged {}", harm.forged));
        }
        4 => {
            let at = (image.start / 512 * 512).max(8192);
            let end = (at + 512).min(files.data.len());
            files.data[at..end].fill(0);
            harm.journal |= files.blocks.iter().any(|(block, _)| (at..end).contains(block));
            harm.what.push(format!("sector of page {no}"));
        }
        _ => {
            let (source, from) = match kind {
                5 => (&*files, some_page(files, random).and_then(|from| files.image(from))),
                _ => (other, other.image(no)),
            };
            let Some(from) = from.filter(|from| from.end <= source.data.len()) else { return };
            let bytes = source.data[from].to_vec();
            let end = (image.start + bytes.len()).min(files.data.len());
            files.data[image.start..end].copy_from_slice(&bytes[..end - image.start]);
            harm.foreign |= kind != 5;
            harm.what.push(format!("another page written to {no}, foreign {}", kind != 5));
        }
    }
    let hits = |range: &std::ops::Range<usize>| {
        range.start < image.start + 4096 && image.start < range.end
    };
    // The written or wiped bytes may go on in the table.
    harm.table |= kind >= 4 && files.leaves.values().chain([&files.root]).any(hits);
}

fn harm(files: &mut Files, other: &Files, random: &mut Random) -> Harm {
    let mut harm = Harm { forged: random.random_range(0..5) == 0, ..Harm::default() };
    if random.random_range(0..4) > 0 {
        files.forget_old();
    }
    // Mostly a little; now and then so much that trees lack leaves for the same keys.
    let (times, kinds) = if random.random_range(0..5) == 0 {
        (random.random_range(5..40), 5)
    } else {
        (random.random_range(0..5), 11)
    };
    for _ in 0..times {
        let kind = random.random_range(0..kinds);
        match kind {
            0..6 | 9 => harm_page(files, other, kind, random, &mut harm),
            6 if random.random_range(0..3) == 0 => {
                let len = random.random_range(0..=files.data.len());
                let len = len.max(if random.random_range(0..4) > 0 { 8192 } else { 0 });
                harm.journal |= files.blocks.iter().any(|(at, bytes)| at + bytes > len);
                harm.journal_is_cut |= harm.journal;
                files.data.truncate(len);
                harm.supers += if len < 8192 { 2 } else { 0 };
                harm.table |= files.root.end > len;
                harm.what.push(format!("cut to {len} bytes"));
            }
            7 => harm_journal(files, random, &mut harm),
            8 if files.data.len() >= 8192 => harm_superblocks(files, random, &mut harm),
            10 => harm_table(files, random, &mut harm),
            _ => {}
        }
    }
    harm
}

/// A pair of a clean pool: what it is, and the pages that it is on: its leaf, or those of its record and
/// its extents.
struct Place {
    leaf: usize,
    pages: BTreeSet<usize>,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Reads all pairs of a clean pool by the format's description.
fn places(files: &Files) -> Vec<Place> {
    let mut found = Vec::new();
    for leaf in files.all(NODE, 0) {
        for entry in files.entries_of(leaf) {
            let Some((page, unit)) = entry.record else {
                let LeafEntry { key, value, .. } = entry;
                found.push(Place { leaf, pages: BTreeSet::from([leaf]), key, value });
                continue;
            };
            let bytes = files.page(page);
            let record = &bytes[64 + 16 * unit..];
            let (head, len) = (u32_at(record, 0), u32_at(record, 4) as usize);
            let key_len = (head & 0x1fff_ffff) as usize;
            let mut pages = BTreeSet::from([page]);
            if head >> 31 == 0 {
                let (key, value) = (record[8..8 + key_len].to_vec(), &record[8 + key_len..]);
                found.push(Place { leaf, pages, key, value: value[..len].to_vec() });
                continue;
            }
            let n = u32_at(record, 12) as usize;
            let run = |list: &[u8], i: usize| {
                let word = u64_at(list, 8 * i);
                (word as u32 as usize, (word >> 32) as usize)
            };
            let bytes_of = |(first, count): (usize, usize)| {
                (first..first + count).flat_map(|no| files.page(no).to_vec()).collect::<Vec<_>>()
            };
            let listed = head >> 29 & 1 != 0;
            let mut list = record[16..].to_vec();
            if listed {
                let (first, count) = run(&list, 0);
                pages.extend(first..first + count);
                list = bytes_of((first, count));
            }
            let mut bytes = Vec::new();
            for i in 0..n {
                let (first, count) = run(&list, i);
                pages.extend(first..first + count);
                bytes.extend(bytes_of((first, count)));
            }
            let key = if head >> 30 & 1 != 0 {
                let at = 16 + 8 * if listed { 1 } else { n };
                record[at..at + key_len].to_vec()
            } else {
                bytes.drain(..key_len).collect()
            };
            bytes.truncate(len);
            found.push(Place { leaf, pages, key, value: bytes });
        }
    }
    found
}

/// Each untouched pair of a clean pool must come out, and in its own tree if the way there is untouched.
fn expect_untouched(case: &Case, files: &Files, out: &Trees, is_old_said: bool) {
    let old = &case.files;
    let is_same = |no: &usize| {
        let Some(image) = old.image(*no) else { return true };
        files.data.get(image.clone()).is_some_and(|bytes| bytes == &old.data[image])
    };
    let named = |name: &str| case.now.contains_key(name);
    // The catalog's nodes are those with names of trees.
    let all = places(old);
    let names: Vec<_> =
        all.iter().filter(|p| std::str::from_utf8(&p.key).is_ok_and(named)).collect();
    let way =
        old.imaged().into_iter().filter(|no| old.is_good(*no)).filter(|no| match old.kind(*no) {
            MAP | ANCHOR => true,
            NODE => old.level(*no) > 0 || names.iter().any(|p| p.leaf == *no),
            _ => names.iter().any(|p| p.pages.contains(no)),
        });
    let way_is_there = way.collect::<Vec<_>>().iter().all(is_same);
    for place in all.iter().filter(|p| p.pages.iter().all(is_same)) {
        let is_in = |tree: &BTreeMap<Vec<u8>, Vec<u8>>| tree.get(&place.key) == Some(&place.value);
        let key = String::from_utf8_lossy(&place.key);
        if place.value.is_empty() && !is_same(&place.leaf)
            || names.iter().any(|p| p.key == place.key)
        {
            continue;
        }
        assert!(out.values().any(is_in), "{key:?} is untouched and gone");
        let (own, _) =
            case.now.iter().find(|(_, pairs)| pairs.contains_key(&place.key)).expect("durable");
        // A pair that may be older is beside its tree.
        if way_is_there && is_same(&place.leaf) && !is_old_said {
            assert!(out.get(own).is_some_and(is_in), "{key:?} is untouched and not in {own:?}");
        }
    }
}

/// Says how many of the durable pairs are not in their tree any more.
fn run(seed: u64) -> usize {
    everleaf_testing::at_seed(seed);
    let mut random = Random::seed_from_u64(seed);
    let keys_are_shared = random.random_range(0..2) == 0;
    let case = build(&mut random, 'a', keys_are_shared);
    let other = build(&mut random, 'z', false);
    let mut files = case.files.clone();
    let harm = harm(&mut files, &other.files, &mut random);
    println!("seed {seed}: clean {}, {:?}", case.is_clean, harm.what);
    let salvaged = match salvage(&files.disk()) {
        Err(Error::Foreign { .. }) if harm.supers >= 2 => return 0,
        salvaged => salvaged,
    };
    let (report, out) = salvaged.expect("damage is no error");
    if harm.what.is_empty() {
        assert!(report.is_complete(), "{:#?}", report.losses);
        assert!(out == case.now);
        return 0;
    }
    if harm.forged {
        // Anything may come out, as a sound pool.
        return 0;
    }
    // Changes of pages may be missing: then it is said.
    let says_old = ["older than", "the next that is left is"];
    let is_old_said =
        report.losses.iter().any(|loss| says_old.iter().any(|what| loss.what.contains(what)));
    let fuzzy = harm.journal && !case.is_clean || is_old_said;
    let is_old = |tree: &str, key: &[u8], value: &[u8]| {
        let values = case.ever.get(&(tree.to_owned(), key.to_vec()));
        values.is_some_and(|values| values.contains(value))
    };
    for tree in &report.trees {
        for (key, value) in &out[&tree.name] {
            let text = String::from_utf8_lossy(key);
            let known = match tree.origin {
                Origin::Named if fuzzy => is_old(&tree.name, key, value),
                Origin::Named => case.now[&tree.name].get(key) == Some(value),
                _ => {
                    value.is_empty()
                        || value.len() == 4
                        || case.now.keys().any(|name| is_old(name, key, value))
                }
            };
            assert!(known, "{text:?} in {:?} was never so", tree.name);
        }
    }
    let missing = |(name, pairs): (&String, &BTreeMap<Vec<u8>, Vec<u8>>)| {
        let own = out.get(name);
        pairs.iter().filter(|(key, value)| own.and_then(|t| t.get(*key)) != Some(*value)).count()
    };
    let lost: usize = case.now.iter().map(missing).sum();
    let may_be_silent = harm.journal_is_cut && !case.is_clean;
    assert!(lost == 0 || !report.is_complete() || may_be_silent, "something is lost in silence");
    if case.is_clean && !keys_are_shared && !harm.foreign && case.has_homes && harm.supers < 2 {
        expect_untouched(&case, &files, &out, is_old_said);
    }
    lost
}

#[test]
fn random_pools_with_random_damage() {
    let first = seed().unwrap_or(1);
    let count = if seed().is_some() { 1 } else { count(100, 1_000) };
    let done: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn(move || {
                    let seeds = (first + thread..first + count).step_by(2);
                    let run = |seed| (seed, catch_unwind(AssertUnwindSafe(|| run(seed))).ok());
                    seeds.map(run).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it catches panics")).collect()
    });
    let lossy = done.iter().filter(|(_, lost)| lost.is_some_and(|lost| lost > 0)).count();
    let lost: usize = done.iter().filter_map(|(_, lost)| *lost).sum();
    println!("{} pools, {lossy} of them with losses, {lost} pairs in all", done.len());
    let failed: Vec<_> = done.iter().filter(|(_, lost)| lost.is_none()).collect();
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
}
