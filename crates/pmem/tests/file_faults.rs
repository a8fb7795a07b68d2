//! A failure at each call: writes stop, reads go on, nothing acknowledged is lost, and the pool opens
//! again, with and without a power cut in between.

use everleaf_pmem::io::{Fault, SimIo};

mod toy;
use toy::{Model, Rng, Toy, check, poisoned_refuses_to_write};

struct Outcome {
    acknowledged: u64,
    running: u64,
    model: Model,
}

/// A script with commits, checkpoints, a close and a reopen. Stops at the first error.
fn script(io: &SimIo) -> Outcome {
    let (mut rng, mut model) = (Rng(7), Model::new());
    let (mut acknowledged, mut running) = (0, 1);
    for round in 0..3 {
        let Ok(toy) = Toy::open(io) else { break };
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

#[test]
fn a_failure_at_each_call_loses_nothing_acknowledged() {
    let calls = {
        let io = SimIo::new(1);
        script(&io);
        io.calls()
    };
    assert!(calls > 100, "the script is too short");
    for fault in [Fault::Io, Fault::NoSpace, Fault::LostSync] {
        for call in 0..calls {
            let io = SimIo::new(1);
            io.fail_at(call, fault);
            let outcome = script(&io);
            // Without a cut the disk itself goes on, so that comes last.
            for cut in [1, 2, 3, 0] {
                let what = format!("{fault:?} at call {call}, cut {cut}");
                let disk = if cut == 0 { io.clone() } else { io.power_cut(cut) };
                recover_twice(&disk, &outcome, &what);
            }
        }
    }
}

/// Recovers, works on, and loses power: after a failed sync the first recovery must not have taken
/// the system's memory for the disk.
fn recover_twice(disk: &SimIo, outcome: &Outcome, what: &str) {
    let mut model = outcome.model.clone();
    let toy = Toy::open(disk).unwrap_or_else(|e| panic!("{what}: {e}"));
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
