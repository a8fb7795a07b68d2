//! Figures of the crate `metrics`: a recorder gets all that happens, by the names that the guide lists.

#[path = "ear/figures.rs"]
mod figures;
mod slow;
mod toy;
mod watched;

use figures::{DESCRIBED, Ear, all, one, values};

#[test]
fn a_recorder_gets_all_that_happens() {
    metrics::set_global_recorder(Ear).unwrap_or_else(|_| panic!("the first one"));

    let happened = watched::a_pool_that_is_used();
    assert_eq!(one("everleaf_epochs_total"), happened.last_epoch as f64 + 1.0);
    assert_eq!(one("everleaf_commits_total"), happened.commits as f64);
    let (bytes, seconds) = (all("everleaf_commit_bytes"), all("everleaf_commit_seconds"));
    assert_eq!((bytes.len() as u64, seconds.len()), (happened.commits, bytes.len()));
    assert!(bytes.iter().any(|bytes| *bytes > (8 << 20) as f64), "{bytes:?}");
    assert!(seconds.iter().all(|s| (0.0..60.0).contains(s)), "{seconds:?}");

    let checkpoints = one("everleaf_checkpoints_total");
    assert_eq!(all("everleaf_checkpoint_seconds").len() as f64, checkpoints);
    assert!(checkpoints >= 3.0 && one("everleaf_checkpoint_bytes_total") > 0.0);
    assert!(one("everleaf_checkpoint_pages_total") >= happened.pages as f64);
    assert!(one("everleaf_cleaned_extents_total") >= 1.0);
    assert!(one("everleaf_cleaned_bytes_total") > 0.0);
    assert!(!all("everleaf_cleaning_seconds").is_empty());
    assert!(one("everleaf_stalls_total why=spill") >= happened.spills as f64);

    // Gauges of a closed pool are 0.
    let hex: String = happened.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let gauges: Vec<_> = values()
        .iter()
        .filter(|(name, _)| name.contains("pool="))
        .map(|(name, values)| (name.replace('-', ""), values[0]))
        .collect();
    let names = ["everleaf_changed_pages", "everleaf_file_bytes", "everleaf_journal_bytes"];
    let expected = names.map(|name| (format!("{name} pool={hex}"), 0.0));
    assert_eq!(gauges, expected);

    let waits = watched::a_disk_that_stands_still() as f64;
    let stalls = |why: &str| all(&format!("everleaf_stall_seconds why={why}"));
    let waited = [stalls("disk"), stalls("journal")].concat();
    assert!(waited.len() as f64 == waits && waited.iter().any(|s| *s > 0.01), "{waited:?}");

    watched::a_disk_that_fails();
    assert_eq!(one("everleaf_writes_stopped_total"), 1.0);
    assert_eq!(one("everleaf_commit_failures_total"), 1.0);

    // The guide lists what there is, and what there is has a description.
    let guide = include_str!("../../../docs/guide/operating.md");
    let mut described = DESCRIBED.lock().expect("no panic").clone();
    described.sort_unstable();
    described.dedup();
    assert_eq!(described.len(), 25);
    for name in values().keys().filter_map(|key| key.split(' ').next()) {
        assert!(described.iter().any(|one| one == name), "{name} has no description");
    }
    for name in described {
        assert!(guide.contains(&format!("`{name}`")), "the guide does not list {name}");
    }
}
