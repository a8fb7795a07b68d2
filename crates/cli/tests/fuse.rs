//! The real binary on a disk that loses power, drops what it could not sync, and fails: a file
//! system of FUSE on simulated files. Where FUSE cannot be mounted the tests say so and pass.
//!
//! `EVERLEAF_SCALE` sets how many power cuts there are, and how many faults of each kind (30);
//! `EVERLEAF_SEED` where the random numbers start.

mod common;
mod faultfs;
mod kills;

use common::Place;
use everleaf::io::{Fault, SimIo};
use faultfs::Mount;
use kills::loads::{self, End, Load, Loads};
use kills::{Context, Random, Tally, in_lanes};
use rand::RngExt;

fn count() -> u64 {
    everleaf_testing::count(30, 150)
}

impl Mount {
    /// A place whose pool is on this disk.
    fn place(&self) -> Place {
        Place { dir: tempfile::tempdir().unwrap(), pool: self.dir.path().join("p.ever") }
    }
}

fn random_load(run: u64, random: &mut Random) -> Load {
    let lines = random.random_range(1..6_000);
    let pause_every = [20, 200, 6_000][random.random_range(0..3)];
    let interval = ["1", "3", "10"][random.random_range(0..3)];
    let sync = random.random_range(0..8) == 0;
    Load { run, lines, pause_every, interval, sync, ..Load::default() }
}

/// Few or many calls, so that making, loading and closing the pool are all met.
fn random_calls(random: &mut Random) -> u64 {
    let magnitude: f64 = random.random_range(1.0..6.5);
    magnitude.exp() as u64
}

#[test]
fn what_was_acknowledged_survives_power_cuts() {
    if Mount::new(&SimIo::new(0)).is_none() {
        return;
    }
    let tally = Tally::new("power cuts under the binary");
    in_lanes(count(), |lane| {
        let (mut disk, mut loads) = (SimIo::new(lane.random.random()), Loads::default());
        for run in lane.runs.clone() {
            if run % 5 == 0 {
                (disk, loads) = (SimIo::new(lane.random.random()), Loads::default());
            }
            let load = random_load(run, &mut lane.random);
            let mount = Mount::new(&disk).expect("as before");
            let (calls, seed) = (random_calls(&mut lane.random), lane.random.random());
            let context = format!("run {run}: cut after {calls} calls by seed {seed}");
            let _context = Context(context);
            disk.cut_at(disk.calls() + calls, Some(seed));
            let ended = loads::load_to_end(&mount.place(), &load);
            // A load that was faster than the cut loses power now.
            let cut = mount.after_cut();
            let (code, said) = (ended.status.code(), &ended.said);
            let expected = if cut.is_some() { 4 } else { 0 };
            // The close may have been cut when all was done but for what is only good manners.
            assert!(code == Some(expected) || code == Some(0), "{}: {said}", ended.status);
            tally.add(if cut.is_some() { "under way" } else { "after its end" });
            disk = cut.unwrap_or_else(|| disk.power_cut(seed));
            drop(mount);
            while lane.random.random_range(0..3) == 0 {
                tally.add(cut_recovery(&mut disk, &mut lane.random));
            }

            let mount = Mount::new(&disk).expect("as before");
            let end = End { acked: ended.acked, killed: code != Some(0) };
            loads.verify(&mount.place(), &load, &end);
        }
    });
}

/// Opens the pool for writing, and cuts the power meanwhile.
fn cut_recovery(disk: &mut SimIo, random: &mut Random) -> &'static str {
    let mount = Mount::new(disk).expect("as before");
    let (calls, seed) = (random.random_range(0..60), random.random());
    disk.cut_at(disk.calls() + calls, Some(seed));
    // Not found, or cut off.
    let ran = mount.place().run("del", ["t", "no such key"]);
    assert!(matches!(ran.code, Some(1 | 4)), "{ran}");
    let cut = mount.after_cut();
    let what = if cut.is_some() { "in recovery" } else { "after recovery" };
    *disk = cut.unwrap_or_else(|| disk.power_cut(seed));
    what
}

/// A fault strikes; what was acknowledged can be read at once, and after a power cut.
fn strike(kind: Fault, calls_most: u64, name: &'static str) {
    if Mount::new(&SimIo::new(0)).is_none() {
        return;
    }
    let tally = Tally::new(name);
    in_lanes(count(), |lane| {
        for run in lane.runs.clone() {
            let disk = SimIo::new(lane.random.random());
            let mount = Mount::new(&disk).expect("as before");
            let place = mount.place();
            let mut loads = Loads::default();
            if run % 2 == 0 {
                place.run("put", ["other", "k", "v"]).ended(0);
            }
            let load = random_load(run, &mut lane.random);
            let calls = lane.random.random_range(0..calls_most);
            let seed = lane.random.random();
            let _context = Context(format!("run {run}: {kind:?} after {calls} calls, seed {seed}"));
            mount.fail_after(calls, kind);
            let ended = loads::load_to_end(&place, &load);
            let (code, said) = (ended.status.code(), &ended.said);
            let cause = if kind == Fault::NoSpace { "No space left" } else { "Input/output error" };
            assert!(code == Some(0) || (code == Some(4) && said.contains(cause)), "{said}");
            assert!(!said.contains("panicked"), "{said}");
            let too_late = mount.spare();
            tally.add(match code {
                Some(0) if too_late => "after its end",
                Some(0) => "harmless",
                _ => "reported",
            });
            let end = End { acked: ended.acked, killed: code != Some(0) };
            loads.verify(&place, &load, &end);
            drop((place, mount));

            let mount = Mount::new(&disk.power_cut(seed)).expect("as before");
            let mut loads = Loads::default();
            loads.verify(&mount.place(), &load, &end);
        }
    });
}

#[test]
fn a_failed_call_is_reported_and_loses_nothing() {
    strike(Fault::Io, 200, "failed calls under the binary");
}

#[test]
fn a_sync_that_drops_is_reported_and_loses_nothing() {
    strike(Fault::LostSync, 30, "failed syncs under the binary");
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    strike(Fault::NoSpace, 60, "no space under the binary");
}

#[test]
fn reads_that_fail_are_reported_and_harm_nothing() {
    let disk = SimIo::new(1);
    let Some(mount) = Mount::new(&disk) else { return };
    let lines: String = (0..3000).map(|i| format!("{i:05}\t{i}\n")).collect();
    mount.place().run_with("load", ["t"], lines.as_bytes()).ended(0);
    drop(mount);
    let mount = Mount::new(&disk).expect("as before");
    let place = mount.place();
    mount.fail_reads(true);
    for (command, args) in [
        ("get", &["t", "00007"][..]),
        ("scan", &["t"]),
        ("stat", &[]),
        ("check", &[]),
        ("put", &["t", "k", "v"]),
        ("del", &["t", "00007"]),
    ] {
        let ran = place.run(command, args).ended(4);
        assert!(ran.err.contains("Input/output error") && ran.out.is_empty(), "{command}: {ran}");
    }
    mount.fail_reads(false);
    place.run("check", [""; 0]).ended(0);
    assert!(place.run("scan", ["t"]).ended(0).text() == lines);
}
