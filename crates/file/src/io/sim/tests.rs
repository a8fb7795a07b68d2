//! Each kind of misfortune happens, at the time that is said, and leaves what is said.

use std::collections::BTreeSet;

use std::path::PathBuf;

use super::*;

fn at(name: &str) -> PathBuf {
    PathBuf::from(format!("/d/{name}"))
}

/// A disk with one file of these durable bytes.
fn disk_with(name: &str, bytes: &[u8]) -> (SimIo, Box<dyn IoFile>) {
    let io = SimIo::new(1);
    io.poke(&at(name), 0, bytes);
    let file = io.open(&at(name), Access::Write).expect("it is there");
    (io, file)
}

/// Says what a power cut made of a sector: `new` over `old`, with words that are told apart.
fn classify(sector: &[u8], old: u8, new: u8) -> &'static str {
    let words: Vec<u8> = sector.chunks(8).map(|w| w[0]).collect();
    let uniform = sector.chunks(8).all(|w| w.iter().all(|b| *b == w[0]));
    let (is_old, is_new) = (|w: &u8| *w == old, |w: &u8| *w == new);
    match (uniform, words.iter().position(is_old)) {
        (true, None) if words.iter().all(is_new) => "kept",
        (true, Some(_)) if words.iter().all(is_old) => "dropped",
        (true, Some(n)) if words[..n].iter().all(is_new) && words[n..].iter().all(is_old) => {
            "prefix"
        }
        (true, Some(_)) if words.iter().all(|w| is_old(w) || is_new(w)) => "words",
        (_, _) if words.iter().filter(|w| is_old(w) || is_new(w)).count() < 8 => "garbage",
        _ => "something else",
    }
}

#[test]
fn unsynced_sectors_are_kept_dropped_torn_or_garbage() {
    let (io, file) = disk_with("a", &[1; 16 * 512]);
    file.write_at(&[2; 16 * 512], 0).expect("no fault");
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let after = io.power_cut(seed).peek(&at("a")).expect("a durable name");
        seen.extend(after.chunks(512).map(|sector| classify(sector, 1, 2)));
    }
    assert_eq!(seen, BTreeSet::from(["dropped", "garbage", "kept", "prefix", "words"]));
    file.sync_data().expect("no fault");
    assert!((0..50).all(|seed| io.power_cut(seed).peek(&at("a")) == Some(vec![2; 16 * 512])));
}

#[test]
fn a_file_that_grew_has_one_length_or_the_other_and_holds_what_was_there_before() {
    let (io, file) = disk_with("a", &[1; 4096]);
    io.poke(&at("b"), 0, &[3; 8192]);
    file.write_at(&[2; 4096], 4096).expect("no fault");
    let (mut lengths, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..1000 {
        let after = io.power_cut(seed).peek(&at("a")).expect("a durable name");
        assert_eq!(after[..4096], [1; 4096]);
        lengths.insert(after.len());
        for sector in after[4096..].chunks_exact(512) {
            let uniform = sector.iter().all(|b| *b == sector[0]);
            seen.insert(if uniform { Some(sector[0]) } else { None });
        }
        if after.len() == 8192 && after[4096..] == [0; 4096] {
            lengths.insert(0);
        }
    }
    assert!(lengths.is_superset(&BTreeSet::from([0, 4096, 8192])), "{lengths:?}");
    // Nothing, what was written, stale bytes of both files, garbage.
    let all = [Some(0), Some(1), Some(2), Some(3), None];
    assert_eq!(seen, BTreeSet::from(all));
}

#[test]
fn files_are_reordered_and_so_are_writes_of_one() {
    let (io, a) = disk_with("a", &[1; 512]);
    io.poke(&at("b"), 0, &[1; 512]);
    let b = io.open(&at("b"), Access::Write).expect("it is there");
    a.write_at(&[2; 512], 0).expect("no fault");
    b.write_at(&[2; 512], 0).expect("no fault");
    a.write_at(&[3; 512], 0).expect("no fault");
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        let cut = io.power_cut(seed);
        let first = |name| cut.peek(&at(name)).expect("a durable name")[0];
        seen.insert((first("a"), first("b")));
    }
    for pair in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)] {
        assert!(seen.contains(&pair), "{pair:?}");
    }
}

#[test]
fn names_are_made_durable_by_their_directory() {
    let io = SimIo::new(1);
    io.open(&at("a"), Access::New).expect("no fault");
    let there = |io: &SimIo| io.peek(&at("b")).is_some();
    io.rename(&at("a"), &at("b")).expect("no fault");
    let found: BTreeSet<bool> = (0..60).map(|seed| there(&io.power_cut(seed))).collect();
    assert_eq!(found.len(), 2);
    io.sync_dir(&at("b")).expect("no fault");
    assert!((0..60).all(|seed| there(&io.power_cut(seed))));
}

#[test]
fn a_stray_sector_is_reported_and_only_on_demand() {
    let (io, file) = disk_with("a", &[1; 4096]);
    io.poke(&at("b"), 0, &[2; 5000]);
    file.write_at(&[9; 300], 700).expect("no fault");
    assert!((0..100).all(|seed| io.power_cut(seed).stray().is_none()));
    io.set_weather(Weather { misdirects: true, ..Weather::default() });
    let mut targets = BTreeSet::new();
    for seed in 0..200 {
        let cut = io.power_cut(seed);
        let Some(stray) = cut.stray() else { continue };
        assert_eq!(stray.from.path, at("a"));
        assert_eq!(stray.from.offset % 512, 0);
        assert!((512..1024).contains(&stray.from.offset), "the write is within this sector");
        let to = cut.peek(&stray.to.path).expect("a file");
        let place = stray.to.offset as usize;
        let mut expected = vec![1; 512];
        expected[188..488].fill(9);
        let n = expected.len().min(to.len() - place);
        assert_eq!(to[place..place + n], expected[..n], "{stray:?}");
        let a = cut.peek(&at("a")).expect("a file");
        assert!(a[700..1000].iter().all(|b| *b == 1) || stray.to.path == at("a"));
        targets.insert((stray.to.path, stray.to.offset));
    }
    assert!(targets.len() > 10, "{targets:?}");
}

#[test]
fn short_and_interrupted_attempts_add_up_to_whole_calls() {
    let (io, file) = disk_with("a", &[0; 100]);
    io.set_weather(Weather { short: 2, ..Weather::default() });
    let bytes: Vec<u8> = (0..=255).collect();
    for _ in 0..200 {
        file.write_at(&bytes, 50).expect("whole");
        let mut back = vec![0; 300];
        assert_eq!(file.read_at(&mut back, 50).expect("up to the end"), 256);
        assert_eq!(back[..256], bytes);
    }
    assert_eq!(io.calls(), 401, "attempts are not calls");
    let disk = io.disk();
    let pieces = disk.inodes[0].pending.len();
    assert!(pieces > 300, "{pieces} pieces of 200 writes");
}

#[test]
fn an_interruption_is_not_repeated_for_ever() {
    let (io, file) = disk_with("a", &[0; 100]);
    io.set_weather(Weather { short: 1, ..Weather::default() });
    for _ in 0..50 {
        file.write_at(&[1; 64], 0).expect("it gets on");
    }
}

#[test]
fn errors_in_the_middle_leave_a_part() {
    let mut parts = BTreeSet::new();
    for fault in [Fault::PartialIo, Fault::NoSpace] {
        for seed in 0..40 {
            let io = SimIo::new(seed);
            let file = io.open(&at("a"), Access::New).expect("no fault");
            io.fail_at(io.calls(), fault);
            let error = file.write_at(&[7; 1000], 0).expect_err("a fault");
            assert_eq!(error.kind() == ErrorKind::StorageFull, fault == Fault::NoSpace);
            parts.insert(io.peek(&at("a")).expect("a file").len());
            file.write_at(&[7; 1000], 0).expect("it has gone");
            io.fail_at(io.calls(), Fault::PartialIo);
            let mut buf = [0; 1000];
            file.read_at(&mut buf, 0).expect_err("a fault");
            assert!(buf.contains(&0));
            assert_eq!(file.read_at(&mut buf, 0).expect("it has gone"), 1000);
            assert_eq!(io.faults(), 2);
        }
    }
    assert!(parts.len() > 20 && parts.iter().all(|n| *n < 1000), "{parts:?}");
}

#[test]
fn a_bad_sector_stays_until_it_is_written_over() {
    let (io, file) = disk_with("a", &[4; 2048]);
    let mut buf = [0; 512];
    io.fail_at(io.calls(), Fault::BadSector);
    file.read_at(&mut buf, 512).expect_err("a fault");
    file.read_at(&mut buf, 512).expect_err("still");
    assert_eq!(file.read_at(&mut buf, 0).expect("another sector"), 512);
    let cut = io.power_cut(1);
    let after = cut.open(&at("a"), Access::Write).expect("it is there");
    after.read_at(&mut buf, 1000).expect_err("part of it, after a power cut");
    after.write_at(&[5; 100], 600).expect("writes work");
    after.read_at(&mut buf, 512).expect_err("only a part was written over");
    after.write_at(&[5; 600], 500).expect("writes work");
    assert_eq!(after.read_at(&mut buf, 512).expect("written over"), 512);
    assert_eq!(buf, [5; 512]);
    io.heal();
    assert_eq!(file.read_at(&mut buf, 512).expect("healed"), 512);
    io.break_sector(&at("a"), 2000);
    file.read_at(&mut buf, 1536).expect_err("broken");
}

#[test]
fn a_full_disk_stays_full_and_takes_what_needs_no_room() {
    let (io, file) = disk_with("a", &[4; 4096]);
    io.fail_at(io.calls(), Fault::Full);
    for _ in 0..3 {
        file.write_at(&[1; 512], 0).expect("no room needed");
        file.allocate(0..4096).expect("no room needed");
        let error = file.allocate(0..4097).expect_err("it needs room");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        let error = file.write_at(&[1; 512], 4000).expect_err("it needs room");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(file.len().expect("no fault"), 4096, "the part that needs none is written");
        assert!(io.open(&at("b"), Access::New).is_err());
    }
    io.heal();
    file.write_at(&[1; 512], 4000).expect("room");
}

#[test]
fn what_was_allocated_takes_writes_on_a_full_disk() {
    let (io, file) = disk_with("a", &[4; 1000]);
    file.allocate(0..20_000).expect("room");
    let mut expected = vec![0; 20_000];
    expected[..1000].fill(4);
    assert_eq!(io.peek(&at("a")), Some(expected.clone()), "the rest reads as zeros");
    io.fail_at(io.calls(), Fault::Full);
    file.write_at(&[7; 5000], 15_000).expect("it has room");
    expected[15_000..].fill(7);
    assert_eq!(io.peek(&at("a")), Some(expected));
    let error = file.write_at(&[7; 5000], 19_000).expect_err("no room for the last of it");
    assert_eq!(error.kind(), ErrorKind::StorageFull);
}

#[test]
fn a_lost_sync_says_so_once_and_drops() {
    let mut dropped = 0;
    for seed in 0..40 {
        let io = SimIo::new(seed);
        io.poke(&at("a"), 0, &[1; 4096]);
        let file = io.open(&at("a"), Access::Write).expect("it is there");
        file.write_at(&[2; 4096], 0).expect("no fault");
        io.fail_at(io.calls(), Fault::LostSync);
        file.sync_data().expect_err("a fault");
        file.sync_data().expect("it passes for clean");
        assert_eq!(io.peek(&at("a")), Some(vec![2; 4096]), "memory has it all");
        dropped += usize::from(io.power_cut(1).peek(&at("a")) != Some(vec![2; 4096]));
        file.drop_cached(0..u64::MAX).expect("no fault");
        assert_eq!(io.peek(&at("a")), io.power_cut(1).peek(&at("a")));
    }
    assert!(dropped > 30, "{dropped} of 40");
}

/// The bytes of a file as memory has them: how many of which, one after another.
fn runs(io: &SimIo) -> Vec<(usize, u8)> {
    let bytes = io.peek(&at("a")).expect("a file");
    bytes.chunk_by(|a, b| a == b).map(|run| (run.len(), run[0])).collect()
}

#[test]
fn a_range_is_forgotten_alone_and_keeps_what_is_still_to_be_written() {
    let (io, file) = disk_with("a", &[1; 5 * 4096]);
    // Memory has what the disk has not.
    file.write_at(&[2; 5 * 4096], 0).expect("no fault");
    io.disk().inodes[0].pending.clear();
    file.write_at(&[3; 300], 8000).expect("no fault");
    file.set_len(5 * 4096 - 10).expect("no fault");
    file.drop_cached(5000..5001).expect("no fault");
    assert_eq!(runs(&io), [(4096, 2), (3904, 1), (300, 3), (12170, 2)], "its page alone");
    file.drop_cached(4 * 4096 + 7..u64::MAX).expect("no fault");
    assert_eq!(runs(&io), [(4096, 2), (3904, 1), (300, 3), (8084, 2), (4086, 1)]);
    file.drop_cached(7..7).expect("no fault");
    file.drop_cached(0..u64::MAX).expect("no fault");
    assert_eq!(runs(&io), [(8000, 1), (300, 3), (12170, 1)]);
}

#[test]
fn a_lost_write_is_there_until_memory_forgets_it() {
    let (io, file) = disk_with("a", &[1; 4096]);
    io.set_weather(Weather { short: 3, ..Weather::default() });
    io.lie_at(io.calls() + 1, Lie::Lost, 0);
    io.lie_at(io.calls() + 1, Lie::Lost, 0);
    file.write_at(&[2; 512], 0).expect("before the time");
    io.fail_at(io.calls(), Fault::Io);
    file.write_at(&[3; 512], 512).expect_err("a fault is no lie");
    file.write_at(&[4; 700], 1024).expect("it says so");
    file.write_at(&[5; 512], 4096).expect("it says so");
    file.write_at(&[6; 512], 2048).expect("two are enough");
    file.sync_data().expect("it says so too");
    assert_eq!(runs(&io), [(512, 2), (512, 1), (700, 4), (324, 1), (512, 6), (1536, 1), (512, 5)]);
    let from = |offset| DiskPlace { path: at("a"), offset };
    let lies =
        [(1024, 1024), (4096, 512)].map(|(at, n)| Lied { from: from(at), bytes: n, to: None });
    let disk = [(512, 2), (1536, 1), (512, 6), (1536, 1), (512, 0)];
    for cut in (0..20).map(|seed| io.power_cut(seed)) {
        assert_eq!((runs(&cut), cut.lied()), (disk.to_vec(), lies.to_vec()));
    }
    file.drop_cached(0..u64::MAX).expect("no fault");
    assert_eq!((runs(&io), io.kill().lied()), (disk.to_vec(), lies.to_vec()));
}

#[test]
fn a_misdirected_write_lands_over_other_sectors_of_its_file() {
    let mut places = BTreeSet::new();
    for seed in 0..300 {
        let (io, file) = disk_with("a", &[1; 6 * 4096]);
        io.poke(&at("b"), 0, &[7; 4096]);
        io.lie_at(0, Lie::Misdirected, seed);
        file.write_at(&[2; 900], 8292).expect("it says so");
        let cut = io.power_cut(seed);
        file.sync_data().expect("it says so too");
        assert_eq!(runs(&io), [(8292, 1), (900, 2), (6 * 4096 - 9192, 1)], "memory has it");
        let lied = io.lied();
        assert_eq!(cut.lied(), lied);
        let [Lied { from, bytes: 1024, to: Some(to) }] = &lied[..] else { panic!("{lied:?}") };
        assert_eq!((from.path.as_path(), from.offset), (at("a").as_path(), 8192));
        file.drop_cached(0..u64::MAX).expect("no fault");
        let at_rest = runs(&io);
        let mut expected = vec![1; 6 * 4096];
        expected[*to as usize + 100..*to as usize + 1000].fill(2);
        assert_eq!(io.peek(&at("a")), Some(expected), "{lied:?}");
        assert_eq!(runs(&io.power_cut(seed)), at_rest);
        assert!(to.is_multiple_of(512) && *to != 8192, "{lied:?}");
        places.insert(*to);
    }
    assert!(places.len() > 40, "{places:?}");
}

#[test]
fn a_lie_that_is_not_synced_is_cut_like_any_write() {
    let (io, file) = disk_with("a", &[1; 6 * 4096]);
    io.lie_at(0, Lie::Misdirected, 1);
    file.write_at(&[2; 2048], 8192).expect("it says so");
    let to = io.lied()[0].to.expect("a place") as usize;
    let mut landed = BTreeSet::new();
    for seed in 0..200 {
        let after = io.power_cut(seed).peek(&at("a")).expect("a durable name");
        let away = |n: &usize| !(to..to + 2048).contains(n);
        assert!((0..after.len()).filter(away).all(|n| after[n] == 1));
        landed.extend(after[to..to + 2048].chunks(512).map(|sector| classify(sector, 1, 2)));
    }
    assert_eq!(landed, BTreeSet::from(["dropped", "garbage", "kept", "prefix", "words"]));
}

#[test]
fn a_file_that_shrinks_and_grows_has_zeros_or_what_it_had() {
    let (io, file) = disk_with("a", &[1; 4 * 4096]);
    file.set_len(5000).expect("no fault");
    file.set_len(4 * 4096).expect("no fault");
    assert_eq!(runs(&io), [(5000, 1), (4 * 4096 - 5000, 0)], "at once");
    let mut seen = BTreeSet::new();
    for cut in (0..300).map(|seed| io.power_cut(seed)) {
        seen.insert(runs(&cut));
        // No more comes back after the cut than it left.
        let (file, len) = (cut.open(&at("a"), Access::Write).expect("it is there"), 4 * 4096);
        let before = cut.peek(&at("a")).expect("a file").len();
        file.set_len(len).expect("no fault");
        assert!(cut.peek(&at("a")).expect("a file")[before..].iter().all(|byte| *byte == 0));
    }
    let (neither, shrunk) = (vec![(4 * 4096, 1)], vec![(5000, 1)]);
    let both = vec![(5000, 1), (4 * 4096 - 5000, 0)];
    let mix = vec![(8192, 1), (4096, 0), (4096, 1)];
    for one in [neither, shrunk, both, mix] {
        assert!(seen.contains(&one), "{one:?} in {seen:?}");
    }
    for found in &seen {
        assert!(found[0].0 >= 5000 && found[0].1 == 1, "{found:?}");
    }
    file.sync_data().expect("no fault");
    assert!((0..50).all(|seed| runs(&io.power_cut(seed)) == runs(&io)));
    assert_eq!(runs(&io), [(5000, 1), (4 * 4096 - 5000, 0)]);
}

#[test]
fn a_file_that_shrank_may_grow_into_blocks_of_others() {
    let (io, file) = disk_with("a", &[1; 8192]);
    io.poke(&at("b"), 0, &[3; 8192]);
    file.set_len(4096).expect("no fault");
    file.write_at(&[2; 4096], 4096).expect("no fault");
    let mut seen = BTreeSet::new();
    for seed in 0..1000 {
        let after = io.power_cut(seed).peek(&at("a")).expect("a durable name");
        seen.extend(after.chunks(512).skip(8).map(|sector| sector[0]));
        assert_eq!(after[..4096], [1; 4096]);
    }
    assert!(seen.is_superset(&BTreeSet::from([0, 1, 2, 3])), "{seen:?}");
}

#[test]
fn a_long_file_costs_what_was_written() {
    let (io, file) = disk_with("a", &[1; 8192]);
    let far = 1 << 50;
    for i in 0..64 {
        file.write_at(&[2; 1024], far + (i << 20)).expect("no fault");
    }
    for seed in 0..200 {
        let after = io.power_cut(seed).kill();
        let file = after.open(&at("a"), Access::Write).expect("it is there");
        file.set_len(far / 2).expect("no fault");
        file.set_len(far * 2).expect("no fault");
        file.drop_cached(4096..far).expect("no fault");
        file.drop_cached(0..u64::MAX).expect("no fault");
        assert_eq!(file.len().expect("no fault"), far * 2);
    }
}

#[test]
fn rot_flips_one_bit_at_each_place() {
    let (io, _) = disk_with("a", &[0; 6000]);
    io.poke(&at("b"), 1 << 30, &[0; 10]);
    let mut files = BTreeSet::new();
    for seed in 0..40 {
        for DiskPlace { path, offset } in io.rot(seed, 3) {
            assert!(!(6000..1 << 30).contains(&offset), "only where bytes were written");
            files.insert(path);
        }
    }
    assert_eq!(files.len(), 2);
    let places = io.rot(99, 1);
    let byte = |io: &SimIo| io.disk().inodes[0].durable.clone();
    assert_eq!(io.rot(99, 1), places, "by seed");
    let after = io.power_cut(1);
    let (mut a, mut b) = ([0; 6000], [0; 6000]);
    byte(&io).read(&mut a, 0);
    byte(&after).read(&mut b, 0);
    assert!(a == b && a.iter().any(|byte| *byte != 0), "durable");
}

#[test]
fn a_storm_replays_by_seed() {
    let run = |seed| {
        let io = SimIo::new(seed);
        io.poke(&at("a"), 0, &[1; 4096]);
        let file = io.open(&at("a"), Access::Write).expect("fine weather");
        io.set_weather(Weather { storm: 5, faults: &Fault::ALL, ..Weather::default() });
        let mut results = Vec::new();
        for i in 0..300 {
            let mut buf = [0; 512];
            results.push(file.write_at(&[i as u8; 700], 300).is_ok());
            results.push(file.read_at(&mut buf, 512).is_ok());
            results.push(file.sync_data().is_ok());
            results.push(buf[0] % 2 == 0);
        }
        (results, io.faults(), io.peek(&at("a")))
    };
    let (results, faults, _) = run(3);
    assert!((90..270).contains(&faults), "{faults} of 900 calls");
    assert!(results.contains(&false));
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn a_killed_process_leaves_what_it_wrote_to_be_synced() {
    let (io, file) = disk_with("a", &[1; 512]);
    file.write_at(&[2; 512], 0).expect("no fault");
    let at_once = io.kill();
    // Asked for too late, it comes at the next call, and once.
    io.cut_at(0, None);
    file.sync_data().expect("no fault");
    let killed = io.take_cut().expect("the call has come");
    file.sync_data().expect("no fault");
    assert!(io.take_cut().is_none());
    for killed in [at_once, killed] {
        assert_eq!(killed.peek(&at("a")), Some(vec![2; 512]));
        let lost = |seed| killed.power_cut(seed).peek(&at("a")) == Some(vec![1; 512]);
        assert!((0..50).any(lost));
    }
    assert_eq!(io.power_cut(1).peek(&at("a")), Some(vec![2; 512]));
}
