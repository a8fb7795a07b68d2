//! `everleaf salvage`: from damaged pools of the demo's cities into sound ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{Place, Ran, contents, everleaf, run};
use flate2::read::GzDecoder;

/// Where images begin in the file, the bytes of an image's head, and where a page's kind is in its payload
/// (docs/FORMAT.md).
const IMAGES_AT: usize = 8_192;
const HEAD: usize = 48;
const KIND_AT: usize = 40;

/// Values from so many bytes on are in records, not in their leaf.
const LONG: usize = 600;

/// The lines that are loaded: a part of the cities, by place. Every fifth has a long value.
fn lines() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/cities.tsv.gz");
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let line = |(i, line): (usize, &str)| {
        let fields: Vec<_> = line.split('\t').collect();
        let more = if i % 5 == 0 { ".".repeat(LONG) } else { String::new() };
        format!(
            "{}/{}/{}\t{},{} {}{more}\n",
            fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]
        )
    };
    text.lines().step_by(4).enumerate().map(line).collect()
}

fn loaded() -> (Place, String) {
    let place = Place::new();
    let lines = lines();
    place.run_with("load", ["places"], lines.as_bytes()).ended(0);
    let sorted = place.run("scan", ["places"]).ended(0).text().to_owned();
    assert_eq!(sorted.lines().count(), lines.lines().count());
    (place, sorted)
}

fn salvage(place: &Place, args: &[&str]) -> (Ran, PathBuf) {
    let new = place.dir.path().join("new.ever");
    let ran = run(everleaf().arg("salvage").arg(&place.pool).arg(&new).args(args), b"");
    (ran, new)
}

fn on(new: &Path, command: &str, args: &[&str]) -> Ran {
    run(everleaf().arg(command).arg(new).args(args), b"")
}

/// The images of a page, by their stamps: where each is, and its bytes.
type Images = BTreeMap<u64, (usize, usize)>;

/// The images of all pages of a pool, by page.
fn images(pool: &[u8]) -> BTreeMap<u32, Images> {
    let number = |at: usize| u32::from_le_bytes(pool[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(pool[at..at + 8].try_into().unwrap());
    let mut images = BTreeMap::<_, Images>::new();
    for at in (IMAGES_AT..pool.len() - HEAD).step_by(16) {
        let is_page = pool[at..].starts_with(b"EVLI") && pool[at + 20] == 1;
        if is_page && long(at + 8) == at as u64 {
            let bytes = HEAD + number(at + 24) as usize;
            images.entry(number(at + 16)).or_default().insert(long(at + 40), (at, bytes));
        }
    }
    images
}

/// The newest images of pages whose kind is `kind`, a part of them; older ones of the same pages become
/// zero.
fn hit(pool: &mut [u8], kind: u8, step: usize) -> Vec<(usize, usize)> {
    let mut hit = Vec::new();
    for mut images in images(pool).into_values() {
        let (_, newest) = images.pop_last().unwrap();
        if pool[newest.0 + HEAD + KIND_AT] == kind {
            images.values().for_each(|(at, bytes)| pool[*at..at + bytes].fill(0));
            hit.push(newest);
        }
    }
    // The first node is the catalog's.
    hit.into_iter().skip(1).step_by(step).collect()
}

/// Damages all images of some pages, salvages, and answers how many short lines and
/// how many long ones are missing, and how many pairs are said to be.
fn lose(kind: u8, step: usize) -> (usize, usize, u64) {
    let (place, original) = loaded();
    let mut bytes = fs::read(&place.pool).unwrap();
    let hit = hit(&mut bytes, kind, step);
    assert!(hit.len() > 3, "{} pages", hit.len());
    for (at, image) in &hit {
        bytes[at + image - 1] ^= 0x40;
    }
    fs::write(&place.pool, &bytes).unwrap();
    place.run("check", [""; 0]).ended(3);
    let before = contents(place.dir.path());
    let (ran, new) = salvage(&place, &["--json"]);
    let ran = ran.ended(3);
    let report: serde_json::Value = serde_json::from_slice(&ran.out).unwrap();
    assert!(hit.iter().all(|(at, _)| ran.err.contains(&at.to_string())), "{ran}");
    assert_eq!(report["pages_lost"], hit.len());
    on(&new, "check", &[]).ended(0);
    let after = on(&new, "scan", &["places"]).ended(0);
    let all: BTreeSet<&str> = original.lines().collect();
    assert!(after.text().lines().all(|line| all.contains(line)));
    for (path, bytes) in before {
        assert!(fs::read(&path).unwrap() == bytes, "{} has changed", path.display());
    }
    let there: BTreeSet<&str> = after.text().lines().collect();
    let (long, short): (Vec<&str>, Vec<&str>) =
        all.difference(&there).copied().partition(|line| line.len() > LONG);
    (short.len(), long.len(), report["pairs_lost"].as_u64().unwrap())
}

#[test]
fn a_sound_pool_is_copied_as_it_is() {
    let (place, original) = loaded();
    let (ran, new) = salvage(&place, &[]);
    let ran = ran.ended(0).says(&format!("places\t{}\n", original.lines().count()));
    assert!(ran.err.contains("no damage"), "{ran}");
    on(&new, "check", &[]).ended(0);
    on(&new, "scan", &["places"]).ended(0).says(&original);
    // Nothing that exists is overwritten.
    let (ran, _) = salvage(&place, &[]);
    ran.ended(2);
}

#[test]
fn what_lost_record_pages_held_is_missing_and_counted() {
    let (short, long, said) = lose(2, 10);
    assert!(short == 0 && long > 100, "{short} short lines, {long} long ones");
    assert_eq!(long as u64, said);
}

#[test]
fn of_lost_leaves_what_is_in_records_is_found() {
    // Every node in twenty, so that leaves and inner nodes are among them.
    let (short, long, said) = lose(1, 20);
    assert!(short > 100, "{short} lines were in lost leaves");
    assert_eq!((long, said), (0, short as u64));
}

#[test]
fn pages_that_are_damaged_are_replaced_by_other_images_of_them() {
    let (place, original) = loaded();
    let mut bytes = fs::read(&place.pool).unwrap();
    let seed = crc32c::crc32c(&bytes[24..40]);
    let hit = hit(&mut bytes, 1, 9);
    for (at, image) in &hit {
        // A copy in another place, which nothing names.
        let to = bytes.len().next_multiple_of(4096);
        bytes.resize(to, 0);
        bytes.extend_from_within(*at..at + image);
        bytes[to + 8..to + 16].copy_from_slice(&(to as u64).to_le_bytes());
        let crc = crc32c::crc32c_append(seed, &bytes[to + 8..]);
        bytes[to + 4..to + 8].copy_from_slice(&crc.to_le_bytes());
        bytes[at + 99] ^= 1;
    }
    fs::write(&place.pool, &bytes).unwrap();
    place.run("check", [""; 0]).ended(3);
    let (ran, new) = salvage(&place, &[]);
    let ran = ran.ended(3);
    assert_eq!(ran.err.matches("may be older than the page was").count(), hit.len(), "{ran}");
    on(&new, "check", &[]).ended(0);
    // They may be older, so they are beside the tree.
    let scan = |tree: &str| on(&new, "scan", &[tree]).ended(0).text().to_owned();
    let (own, older) = (scan("places"), scan("lost+found/older/places"));
    let mut lines: Vec<_> = own.lines().chain(older.lines()).collect();
    lines.sort_unstable();
    let mut all: Vec<_> = original.lines().collect();
    all.sort_unstable();
    assert!(lines == all && older.lines().count() > 100);
    let lost = older.lines().count();
    let said = ran.err.replace(',', "");
    assert!(said.contains(&format!("tree places: {lost} pairs lost")), "{}", ran.err);
    assert!(
        said.contains(&format!("{lost} more in lost+found; {lost} pairs lost 0 pages")),
        "{said}"
    );
}

#[test]
fn a_pool_without_superblocks_is_found_by_its_pages() {
    let (place, original) = loaded();
    let mut bytes = fs::read(&place.pool).unwrap();
    bytes[..8192].fill(0);
    fs::write(&place.pool, &bytes).unwrap();
    place.run("check", [""; 0]).ended(3);
    let (ran, new) = salvage(&place, &[]);
    ran.ended(3);
    on(&new, "check", &[]).ended(0);
    on(&new, "scan", &["places"]).ended(0).says(&original);
}

#[test]
fn damage_is_told_without_a_stdout() {
    let (place, original) = loaded();
    let mut bytes = fs::read(&place.pool).unwrap();
    bytes[..4096].fill(0);
    fs::write(&place.pool, &bytes).unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for (name, stdout) in [("full", Stdio::from(full)), ("gone", Stdio::from(writer))] {
        let new = place.dir.path().join(name);
        let mut command = everleaf();
        let ran = command.arg("salvage").arg(&place.pool).arg(&new);
        let ran = ran.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(3), "{name}: {err}");
        assert!(err.contains("superblock copy 0 is damaged"), "{name}: {err}");
        assert!(err.contains("damaged; 1 tree, "), "{name}: {err}");
        on(&new, "scan", &["places"]).ended(0).says(&original);
    }
}

#[test]
fn pools_of_one_name_may_lie_in_two_directories() {
    let (place, original) = loaded();
    let dir = place.dir.path().join("b");
    fs::create_dir(&dir).unwrap();
    let new = dir.join(place.pool.file_name().unwrap());
    run(everleaf().arg("salvage").arg(&place.pool).arg(&new), b"").ended(0);
    let files = contents(&dir).len();
    on(&new, "scan", &["places"]).ended(0).says(&original);
    assert_eq!(files, 1, "the new pool is one file until it is opened");
    // The old pool's own file is that by any path, and is said to be.
    let same = dir.join("..").join(place.pool.file_name().unwrap());
    let ran = run(everleaf().arg("salvage").arg(&place.pool).arg(same), b"").ended(2);
    assert!(ran.err.contains("is the old pool's own file"), "{ran}");
}

#[test]
fn what_is_no_pool_is_not_salvaged() {
    let place = Place::new();
    fs::write(&place.pool, "no pool at all".repeat(1000)).unwrap();
    let (ran, new) = salvage(&place, &[]);
    ran.ended(3);
    assert_eq!(contents(place.dir.path()).len(), 1);
    fs::remove_file(&place.pool).unwrap();
    let (ran, _) = salvage(&place, &[]);
    ran.ended(4);
    assert!(!new.exists());
}
