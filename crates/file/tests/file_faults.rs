//! A failure of each kind at each call: writes stop, reads go on, nothing acknowledged is lost, and
//! the pool opens again, with and without a power cut in between. Then a second one in the recovery.
//!
//! `EVERLEAF_SCALE` says how many pairs, and how often the power is cut after each failure; `EVERLEAF_SEED` replays one
//! pair.

use everleaf_file::FileOptions;
use everleaf_file::io::{Fault, SimIo, Weather};
use everleaf_pmem::{Error, Result};
use everleaf_testing::{count, seed};

mod toy;
use toy::{Model, Rng, Toy, check, options, path, poisoned_refuses_to_write};

struct Outcome {
    acknowledged: u64,
    running: u64,
    model: Model,
}

/// Opens the toy's pool, with epochs that are spilled at each step, or not at all.
fn open_toy(io: &SimIo, spills: bool) -> Result<Toy> {
    let spill_bytes = if spills { 1 } else { options().spill_bytes };
    Toy::open_with(io, &path(), &FileOptions { spill_bytes, ..options() })
}

/// A script with commits, checkpoints, a close and a reopen. Stops at the first error.
fn script(io: &SimIo, spills: bool) -> Outcome {
    let (mut rng, mut model) = (Rng(7), Model::new());
    let (mut acknowledged, mut running) = (0, 1);
    for round in 0..3 {
        let Ok(toy) = open_toy(io, spills) else { break };
        let mut failed = None;
        for step in 0..40 {
            let changes = model.transfer(&mut rng);
            let result = match step % 10 {
                3 | 6 => toy.file.tick(),
                9 => toy.checkpoint(),
                _ => toy.set(&changes).map(|epoch| model.set(epoch, &changes)),
            };
            acknowledged = toy.file.durable_epoch();
            running = toy.file.clock();
            if let Err(e) = result {
                failed = Some(e);
                break;
            }
        }
        if let Some(error) = failed {
            if toy.file.poisoned().is_some() {
                poisoned_refuses_to_write(&toy, &error, io);
            }
            toy.abandon();
            break;
        }
        if round == 1 {
            toy.abandon();
        } else if toy.close().is_ok() {
            acknowledged = running;
        }
        // A model that goes on must not reuse epochs that a reopen takes back.
        model.cut(running);
    }
    Outcome { acknowledged, running, model }
}

fn calls_of_the_script(spills: bool) -> u64 {
    let io = SimIo::new(1);
    script(&io, spills);
    assert!(io.calls() > 100, "the script is too short");
    io.calls()
}

#[test]
fn a_failure_at_each_call_loses_nothing_acknowledged() {
    fail_at_each_call(false);
}

#[test]
fn nor_does_one_while_epochs_are_spilled() {
    fail_at_each_call(true);
}

fn fail_at_each_call(spills: bool) {
    let (calls, cuts) = (calls_of_the_script(spills), count(1, 3));
    for fault in Fault::ALL {
        let mut struck = 0;
        for call in 0..calls {
            let io = SimIo::new(1);
            io.fail_at(call, fault);
            let outcome = script(&io, spills);
            struck += io.faults();
            // Without a cut the disk itself goes on, so that comes last.
            for cut in (1..=cuts).chain([0]) {
                let what = format!("{fault:?} at call {call}, cut {cut}, spills {spills}");
                let disk = if cut == 0 { io.clone() } else { io.power_cut(cut) };
                recover_twice(&disk, &outcome, fault, &what);
            }
        }
        assert!(struck >= 10, "{fault:?} fits {struck} calls");
    }
}

/// Opens a disk on which a fault may have stayed: then it says so, each time, until that is mended.
fn open(disk: &SimIo, fault: Fault, what: &str) -> Toy {
    for _ in 0..2 {
        match Toy::open(disk) {
            Ok(toy) => return toy,
            Err(Error::Io { .. }) if matches!(fault, Fault::BadSector | Fault::Full) => {}
            Err(error) => panic!("{what}: {error}"),
        }
    }
    disk.heal();
    Toy::open(disk).unwrap_or_else(|e| panic!("{what}, mended: {e}"))
}

/// Recovers, works on, and loses power: after a failed sync the first recovery must not have taken
/// the system's memory for the disk.
fn recover_twice(disk: &SimIo, outcome: &Outcome, fault: Fault, what: &str) {
    let mut model = outcome.model.clone();
    let toy = open(disk, fault, what);
    disk.heal();
    let epoch = check(&toy, &model, outcome.acknowledged, outcome.running, what);
    model.cut(epoch);
    let mut rng = Rng(9);
    for step in 0..12 {
        let changes = model.transfer(&mut rng);
        let epoch = toy.set(&changes).unwrap_or_else(|e| panic!("{what}: {e}"));
        model.set(epoch, &changes);
        match step {
            4 => toy.file.sync().unwrap_or_else(|e| panic!("{what}: {e}")),
            8 => toy.checkpoint().unwrap_or_else(|e| panic!("{what}: {e}")),
            _ => {}
        }
    }
    let (acknowledged, running) = (toy.file.durable_epoch(), toy.file.clock());
    let cut = disk.power_cut(77);
    toy.abandon();
    let toy = Toy::open(&cut).unwrap_or_else(|e| panic!("{what}, again: {e}"));
    check(&toy, &model, acknowledged, running, &format!("{what}, again"));
}

/// A fault at a call of the script, and another one while the pool is opened, read or checkpointed
/// after it.
fn pair(seed: u64, calls: [u64; 2]) -> u64 {
    everleaf_testing::at_seed(seed);
    let mut rng = Rng(seed);
    let spills = seed % 4 == 3;
    let calls = calls[usize::from(spills)];
    let mut kind = || Fault::ALL[rng.below(6) as usize];
    let (first, second) = (kind(), kind());
    let io = SimIo::new(seed);
    io.set_weather(Weather { short: [0, 3][rng.below(2) as usize], ..Weather::default() });
    io.fail_at(rng.below(calls), first);
    let mut outcome = script(&io, spills);
    let mut disk = if rng.below(2) == 0 { io.clone() } else { io.power_cut(rng.next()) };
    disk.heal();
    let (before, call) = (disk.faults(), rng.below(40));
    disk.fail_at(disk.calls() + call, second);
    let what = format!("EVERLEAF_SEED={seed}: {first:?}, {second:?} at call {call} after it");
    match Toy::open(&disk) {
        Ok(toy) => {
            let (epoch, needed) = (toy.file.durable_epoch(), outcome.acknowledged);
            assert!(epoch >= outcome.model.at(needed).0, "{what}: epoch {epoch} of {needed}");
            outcome.model.cut(epoch);
            if let Err(error) = toy.checkpoint() {
                let fitting = matches!(error, Error::Io { .. } | Error::Poisoned { .. });
                assert!(fitting, "{what}: {error}");
            }
            (outcome.acknowledged, outcome.running) = (epoch, toy.file.clock());
            toy.abandon();
        }
        Err(Error::Io { .. }) => {}
        Err(error) => panic!("{what}: {error}"),
    }
    let struck = disk.faults() - before;
    if rng.below(2) == 0 {
        disk = disk.power_cut(rng.next());
    }
    disk.fail_at(u64::MAX, second);
    recover_twice(&disk, &outcome, second, &what);
    struck
}

#[test]
fn a_second_failure_in_the_recovery_loses_nothing_either() {
    let calls = [false, true].map(calls_of_the_script);
    if let Some(seed) = seed() {
        pair(seed, calls);
        return;
    }
    let pairs: u64 = count(1_000, 20_000);
    let struck: u64 = (1..=pairs).map(|seed| pair(seed, calls)).sum();
    println!("{struck} of {pairs} recoveries were struck");
    assert!(struck > pairs / 20);
}
