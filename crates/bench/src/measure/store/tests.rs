use super::data::Data;
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
    for system in ["everleaf-index", "everleaf", "btreemap", "lmdb", "fjall", "redb", "sled", "scc"]
    {
        for (load, threads) in [("single", 1), ("batch", 2)] {
            let text = format!(
                "system = '{system}'\nload = '{load}'\nthreads = {threads}\nkeys = 2_500\nops = 500
                 phases = 'load+get+scan+run+delete'"
            );
            let work = work(&text);
            if store::lacks(system).is_none() {
                let figures = run(&work);
                for phase in ["load", "get", "scan", "run", "delete"] {
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
        let data = Data::new(key_bytes, value_bytes);
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
