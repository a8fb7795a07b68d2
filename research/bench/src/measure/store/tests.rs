use super::data::{Data, KeyForm};
use super::*;

fn work(text: &str) -> Phases {
    toml::from_str(text).expect("parameters")
}

fn run(work: &Phases) -> Figures {
    work.check().expect("it makes sense");
    let scratch = tempfile::tempdir().expect("a folder");
    let context = Context { seed: 3, scratch: scratch.path().into(), dax: None };
    work.run(&context, 1).expect("no fault")
}

#[test]
fn every_phase_of_every_store_that_is_built_finds_what_it_wrote() {
    let systems = [
        "everleaf-index",
        "everleaf",
        "bf-tree",
        "btreemap",
        "lmdb",
        "fjall",
        "redb",
        "rocksdb",
        "sled",
        "scc",
    ];
    for system in systems {
        for (timing, load, threads) in [("each", "single", 1), ("bulk", "batch", 2)] {
            let run_phase = if timing == "each" { "+run" } else { "" };
            let back = if store::goes_back(system) { "+back" } else { "" };
            let phases =
                format!("load+get+seek+turn+scan+scan10{back}+range+walk{run_phase}+update+delete");
            let text = format!(
                "system = '{system}'\nload = '{load}'\nthreads = {threads}\nkeys = 2_500\nops = 500
                 scans = 50\ntiming = '{timing}'\nphases = '{phases}'"
            );
            let work = work(&text);
            if store::lacks(system).is_none() {
                let figures = run(&work);
                let has_cursor = system == "everleaf";
                let is_told = |phase: &&str| has_cursor || !["seek", "turn"].contains(phase);
                for phase in phases.split('+').filter(is_told).filter(|phase| *phase != "turn") {
                    let rate = figures.iter().find(|(name, _)| *name == format!("{phase}_kops"));
                    assert!(rate.is_some_and(|(_, rate)| *rate > 0.0), "{system}: {phase}");
                }
                for (name, _) in &figures {
                    crate::metric::unit(name).expect("a unit");
                }
            }
        }
    }
}

#[test]
fn every_form_of_keys_is_loaded_and_found_however_keys_are_picked() {
    let forms = [("plain", 8), ("plain", 16), ("plain", 520), ("prefix", 16), ("prefix", 520)];
    for (form, bytes) in forms.into_iter().chain([("user", 8), ("url", 8)]) {
        for picks in ["uniform", "zipf", "ascending"] {
            let text = format!(
                "system = 'everleaf'\nkeys = 3_000\nops = 2_000\nform = '{form}'\npicks = '{picks}'
                 key_bytes = {bytes}\nvalue_bytes = 20\ntiming = 'bulk'
                 phases = 'load+get+scan+walk+update+delete'"
            );
            let work = work(&text);
            if (form, picks) == ("url", "ascending") {
                assert!(work.check().is_err());
            } else {
                let figures = run(&work);
                assert_eq!(figures.len(), 7, "a rate for each phase: {form}, {picks}");
            }
        }
    }
}

#[test]
fn the_journal_takes_more_than_the_pairs_that_are_put() {
    let work = work("system = 'everleaf'\nkeys = 5_000\nphases = 'load+journal'");
    let figures = run(&work);
    let found = figures.iter().find(|(name, _)| name == "journal_put_bytes").expect("it is told");
    assert!((16.0..1000.0).contains(&found.1), "{} bytes", found.1);
}

#[test]
fn batches_of_every_length_load_all_pairs() {
    for timing in ["each", "bulk"] {
        for batch in [1, 2, 63, 64, 65, 1000, 3000] {
            for threads in [1, 2] {
                // A walk counts them.
                let figures = run(&work(&format!(
                    "system = 'everleaf'\nload = 'batch'\nbatch = {batch}\nthreads = {threads}
                     keys = 2_501\ntiming = '{timing}'\nphases = 'load+walk'"
                )));
                let of = |metric| figures.iter().find(|(name, _)| name == metric);
                let (_, rate) = of("load_kops").expect("a rate");
                let (_, pair) = of("load_pair_ns").expect("the time of a pair");
                // The rate is the sum over threads, of which each takes its own time for a pair.
                let threads_in_turn = rate * pair / 1e6;
                assert!((0.99..=f64::from(threads) * 10.0).contains(&threads_in_turn));
                assert_eq!(of("load_p99_us").is_some(), timing == "each");
            }
        }
    }
}

#[test]
fn a_queue_gives_back_what_was_put_in_its_order() {
    for system in ["everleaf", "btreemap", "lmdb", "lmdb-writemap", "redb", "fjall", "rocksdb"] {
        if store::lacks(system).is_some() {
            continue;
        }
        for keys in [1, 7, 300] {
            let figures = run(&work(&format!(
                "system = '{system}'\npicks = 'ascending'\nkeys = {keys}\nops = 1_000
                 key_bytes = 16\nvalue_bytes = 100\nphases = 'load+queue'"
            )));
            assert!(figures.iter().any(|(name, rate)| name == "queue_kops" && *rate > 0.0));
        }
    }
}

#[test]
fn what_a_load_writes_is_its_pairs_at_least() {
    for (load, value_bytes) in [("single", 100), ("batch", 1000)] {
        let figures = run(&work(&format!(
            "system = 'everleaf'\nload = '{load}'\nkeys = 2_000\nkey_bytes = 16
             value_bytes = {value_bytes}\nphases = 'load+written+get'"
        )));
        let (_, calls) = &figures.iter().find(|(name, _)| name == "load_calls_share").expect("one");
        // Others of this process write, too.
        assert!(*calls > 0.95, "{calls} bytes for each byte");
    }
}

#[test]
fn long_values_take_their_bytes_on_disk() {
    let work = work(
        "system = 'everleaf'\nkeys = 1_000\nkey_bytes = 16\nvalue_bytes = 1_000
         phases = 'load+run+size'",
    );
    let figures = run(&work);
    let closed = figures.iter().find(|(name, _)| name == "size_closed_mib").expect("a size");
    // A million bytes, at least once.
    assert!(closed.1 > 0.95, "{} MiB", closed.1);
}

#[test]
fn the_bare_disk_is_written_to_by_one_thread() {
    for system in ["disk-append", "disk-overwrite"] {
        let text = format!("system = '{system}'\nmode = 'sync-each'\nkeys = 5\nphases = 'load'");
        let figures = run(&work(&text));
        assert!(figures.iter().any(|(name, rate)| name == "load_kops" && *rate > 0.0));
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for wrong in [
        "system = 'dbm'\nkeys = 1\nphases = 'load'",
        "system = 'everleaf'\nkeys = 1\nphases = 'get'",
        "system = 'everleaf'\nkeys = 0\nphases = 'load'",
        "system = 'everleaf'\nkeys = 1\nphases = 'load+delete+get'",
        "system = 'everleaf'\nkeys = 1\nphases = 'load+dance'",
        "system = 'everleaf'\nkeys = 1\nphases = 'load'\nkey_bytes = 7",
        "system = 'everleaf'\nkeys = 1\nphases = 'load+get+journal'",
        "system = 'everleaf'\nkeys = 1\nphases = 'load+get+written'",
        "system = 'btreemap'\nkeys = 1\nphases = 'load+written'",
        "system = 'everleaf'\nkeys = 1\nphases = 'load+queue'",
        "system = 'everleaf'\nkeys = 1\nphases = 'load+queue+get'\npicks = 'ascending'",
        "system = 'everleaf'\nkeys = 1\nphases = 'load+queue'\npicks = 'ascending'\nthreads = 2",
        "system = 'bf-tree'\nkeys = 1\nphases = 'load+back'",
        "system = 'everleaf'\nkeys = 1\nphases = 'load'\nload = 'batch'\nbatch = 0",
        "system = 'everleaf'\nkeys = 1\nphases = 'load'\nform = 'prefix'\nkey_bytes = 8",
        "system = 'everleaf'\nkeys = 1\nphases = 'load'\nkey_bytes = 12",
        "system = 'lmdb'\nkeys = 1\nphases = 'load'\nkey_bytes = 512",
        "system = 'everleaf'\nkeys = 1\nphases = 'load+run'\ntiming = 'bulk'",
        "system = 'everleaf-index'\nkeys = 1\nphases = 'load'\nform = 'user'",
        "system = 'everleaf-index'\nkeys = 1\nphases = 'load'\nvalue_bytes = 100",
        "system = 'btreemap'\nkeys = 1\nphases = 'load+open'",
        "system = 'btreemap'\nkeys = 1\nphases = 'load'\nmode = 'sync-each'",
        "system = 'disk-append'\nkeys = 1\nphases = 'load'",
        "system = 'disk-append'\nkeys = 1\nphases = 'load'\nmode = 'sync-each'\nthreads = 2",
    ] {
        assert!(work(wrong).check().is_err(), "{wrong}");
    }
}

#[test]
fn values_know_their_key_and_version() {
    for (key_bytes, value_bytes) in [(8, 8), (16, 1000)] {
        let data = Data::new(KeyForm::Plain, (key_bytes, value_bytes), false);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        data.key(0x0123_4567_89ab_cdef, &mut one);
        data.key(0x0123_4567_89ab_cdf0, &mut two);
        assert!(one < two && one.len() == key_bytes);
        data.value(7, 1, &mut one);
        assert_eq!(data.version(7, &one).expect("a value"), 1);
        assert!(data.version(9, &one).expect("a value") > 1);
        assert!(data.version(7, &one[1..]).is_err());
    }
}

#[test]
fn keys_share_what_their_form_says() {
    let key = |form, id| {
        let mut key = Vec::new();
        Data::new(form, (8, 8), false).key(id, &mut key);
        String::from_utf8(key).expect("text")
    };
    let long = |form, id| {
        let mut key = Vec::new();
        Data::new(form, (520, 8), false).key(id, &mut key);
        key
    };
    assert_eq!(long(KeyForm::Prefix, 0xabc)[..504], long(KeyForm::Prefix, 0xabd)[..504]);
    assert_eq!(long(KeyForm::Prefix, 0xabc)[504..], *b"0000000000000abc");
    assert_eq!(long(KeyForm::Plain, 0xabc)[..16], *b"0000000000000abc");
    assert_ne!(long(KeyForm::Plain, 0xabc)[16..], long(KeyForm::Plain, 0xabd)[16..]);
    assert_eq!(key(KeyForm::User, 12_345_678), "user:00000000000000012345678");
    assert_eq!(key(KeyForm::Url, 997 * 3 + 5), "https://www.site005.com/topics/0000000000000bb4");
    let data = Data::new(KeyForm::User, (8, 8), false);
    assert_eq!((data.id(7), data.pair_bytes()), (7, 36));
    assert_eq!(Data::new(KeyForm::Url, (8, 8), false).pair_bytes(), 55);
}
