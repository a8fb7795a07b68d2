//! `everleaf debug`: a page, the journal and a tree, of sound and of damaged pools.

use std::fs;

use crate::common::{Place, Ran, contents, everleaf, run};
use everleaf::Db;
use everleaf_testing::{Rng, images};

fn debug(place: &Place, what: &str, args: &[&str]) -> Ran {
    run(everleaf().arg("debug").arg(what).arg(&place.pool).args(args), b"")
}

/// 3,000 pairs; one value is long, and one key.
fn loaded() -> Place {
    let place = Place::new();
    let mut lines: String = (0..3_000).map(|i| format!("k{i:05}\tvalue {i}\n")).collect();
    lines += &format!("long\t{}\n{}\tshort\n", "v".repeat(60_000), "m".repeat(2_000));
    place.run_with("load", ["t"], lines.as_bytes()).ended(0);
    place
}

fn tree(place: &Place) -> serde_json::Value {
    debug(place, "tree", &["t", "--json"]).ended(0).json()
}

#[test]
fn a_tree_is_shown_by_level_and_its_nodes_as_pages() {
    let place = loaded();
    let before = contents(place.dir.path());
    let shape = tree(&place);
    let nodes = shape["nodes"].as_array().expect("nodes");
    let root = &nodes[0];
    assert!(
        root["level"] == 1 && root["page"] == shape["root"] && root["low"] == "open",
        "{shape}"
    );
    let leaves: Vec<_> = nodes.iter().filter(|node| node["level"] == 0).collect();
    assert_eq!(root["entries"], leaves.len());
    let pairs: u64 = leaves.iter().map(|leaf| leaf["entries"].as_u64().expect("a number")).sum();
    assert_eq!(pairs, 3_002);
    for next in leaves.windows(2) {
        assert_eq!(next[0]["high"], next[1]["low"], "fences meet");
        assert_eq!(next[0]["sibling"], next[1]["page"]);
    }
    let text = debug(&place, "tree", &["t"]).ended(0);
    assert!(text.text().contains(&format!("\nlevel 0: {} nodes, ", leaves.len())), "{text}");
    // The same leaf as a page.
    let number = leaves[1]["page"].to_string();
    let page = debug(&place, "page", &[&number, "--json"]).ended(0).json();
    assert_eq!((&page["kind"], &page["owner"]), (&"node".into(), &"node".into()));
    assert_eq!(page["content"]["low"], leaves[1]["low"]);
    let entry = &page["content"]["entries"][0];
    let key = entry["key"].as_str().expect("a key");
    let number_of_key: u32 = key.trim_start_matches('k').parse().expect("its number");
    assert_eq!(entry["value"], format!("value {number_of_key}"));
    let text = debug(&place, "page", &[&number]).ended(0);
    let line = format!("key \"{key}\"  value \"value {number_of_key}\"\n");
    assert!(
        text.text().contains(&line) && text.text().contains("checksum         no damage"),
        "{text}"
    );
    assert_eq!(contents(place.dir.path()), before, "nothing was written");
}

#[test]
fn each_kind_of_page_is_told() {
    let place = loaded();
    let map = debug(&place, "page", &["0", "--json"]).ended(0).json();
    assert_eq!((&map["kind"], &map["content"]["owners"]["map page"]), (&"map".into(), &1.into()));
    let anchor = tree(&place)["anchor"].to_string();
    let page = debug(&place, "page", &[&anchor, "--json"]).ended(0).json();
    assert_eq!(
        (&page["kind"], &page["content"]["root"]),
        (&"anchor".into(), &tree(&place)["root"])
    );
    let mut kinds = std::collections::BTreeMap::<String, u32>::new();
    let mut records = Vec::new();
    for number in 0..u32::MAX {
        let ran = debug(&place, "page", &[&number.to_string(), "--json"]);
        if ran.code == Some(2) {
            assert!(
                ran.err.contains(&format!("page {number}: the pool has {number} pages")),
                "{ran}"
            );
            break;
        }
        let page = ran.ended(0).json();
        *kinds.entry(page["kind"].as_str().expect("a kind").to_owned()).or_default() += 1;
        records.extend(page["content"].as_array().cloned().unwrap_or_default());
        debug(&place, "page", &[&number.to_string()]).ended(0);
    }
    assert!(kinds["anchor"] >= 2 && kinds["node"] > 10 && kinds["value"] >= 15, "{kinds:?}");
    let has = |key: u64, value: u64, in_runs: bool| {
        records.iter().any(|r| {
            r["key_bytes"] == key && r["value_bytes"] == value && (r["runs"] != 0) == in_runs
        })
    };
    assert!(has(4, 60_000, true) && has(2_000, 5, false), "{records:?}");
}

#[test]
fn the_journal_of_a_pool_that_was_not_closed_is_told() {
    let place = Place::new();
    let open = place.dir.path().join("open.ever");
    let db = Db::open(&open).expect("a pool");
    let tree = db.tree("t").expect("a tree");
    tree.insert("a", "1").expect("room");
    db.sync().expect("a disk");
    tree.insert("b", vec![7; 50_000]).expect("room");
    db.sync().expect("a disk");
    fs::copy(&open, &place.pool).expect("a copy");
    drop(db);
    let json = debug(&place, "journal", &["--json"]).ended(0).json();
    let blocks = json["blocks"].as_array().expect("blocks");
    assert!(blocks.len() >= 2, "{json}");
    for next in blocks.windows(2) {
        assert_eq!(next[0]["number"].as_u64().map(|n| n + 1), next[1]["number"].as_u64());
        assert!(next[0]["epoch"].as_u64() <= next[1]["epoch"].as_u64());
    }
    let whats: Vec<_> =
        blocks.iter().flat_map(|b| b["records"].as_array().expect("records")).collect();
    for what in ["insert", "new anchor", "large value comes", "counts of pairs"] {
        assert!(whats.iter().any(|record| record["what"] == what), "{what}: {json}");
    }
    assert!(whats.iter().all(|record| record["what"] != "unknown"), "{json}");
    let text = debug(&place, "journal", &[]).ended(0);
    assert_eq!(text.text().matches("block ").count(), blocks.len());
    let short = debug(&place, "journal", &["--blocks"]).ended(0);
    assert_eq!(short.text().lines().count(), blocks.len());
}

#[test]
fn a_damaged_page_is_told_and_the_others_are_shown() {
    let place = loaded();
    let shape = tree(&place);
    let leaf = &shape["nodes"][2];
    let mut file = fs::read(&place.pool).expect("the pool");
    let at = leaf["place"].as_u64().expect("a place") as usize;
    file[at + 48 + 100] ^= 1;
    fs::write(&place.pool, &file).expect("room");
    let number = leaf["page"].to_string();
    let ran = debug(&place, "page", &[&number, "--json"]).ended(3);
    assert_eq!(ran.json()["kind"], "unreadable", "{ran}");
    assert_eq!(ran.json()["damages"][0]["offset"], leaf["place"], "{ran}");
    let ran = debug(&place, "tree", &["t", "--json"]).ended(3);
    let rest = ran.json()["nodes"].as_array().expect("nodes").len();
    assert_eq!(rest + 1, shape["nodes"].as_array().expect("nodes").len());
    assert_eq!(ran.json()["damages"][0]["page"], leaf["page"], "{ran}");
    debug(&place, "journal", &[]).ended(0);
}

#[test]
fn what_is_not_there_is_told_by_the_exit_code() {
    let place = loaded();
    let ran = debug(&place, "tree", &["other"]).ended(1);
    assert!(ran.err.contains("other"), "{ran}");
    debug(&place, "page", &["4294967295"]).ended(2);
    fs::write(&place.pool, b"no pool").expect("room");
    debug(&place, "page", &["0"]).ended(3);
    fs::remove_file(&place.pool).expect("it is there");
    debug(&place, "journal", &[]).ended(4);
}

#[test]
fn whatever_is_damaged_it_ends_and_says_so() {
    let place = loaded();
    let sound = fs::read(&place.pool).expect("the pool");
    let live = images::live(&sound);
    let mut rng = Rng(1);
    for round in 0..60 {
        let mut file = sound.clone();
        for _ in 0..1 + round % 4 {
            let image = rng.pick(&live.iter().map(|it| (it.start, it.end)).collect::<Vec<_>>());
            let (from, to) = if rng.one_in(4) { (0, 8_192) } else { image };
            let at = from + rng.below((to - from) as u64) as usize;
            file[at] ^= 1 << rng.below(8);
        }
        if rng.one_in(8) {
            file.truncate(rng.below(file.len() as u64) as usize);
        }
        fs::write(&place.pool, &file).expect("room");
        let number = rng.below(60).to_string();
        for (what, args) in [("page", &[&*number][..]), ("journal", &[]), ("tree", &["t"])] {
            let ran = debug(&place, what, args);
            assert!(matches!(ran.code, Some(0..=4)), "round {round}: {what}: {ran}");
            assert!(!ran.err.contains("panicked"), "round {round}: {what}: {ran}");
        }
    }
}
