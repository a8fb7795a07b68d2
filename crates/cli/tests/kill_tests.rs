//! The real binary is killed at random moments; all that it had acknowledged is there afterwards,
//! nothing else but what was under way is, and `check` finds no damage.
//!
//! `EVERLEAF_SCALE` sets how often in each tier (5; a fifth of that with readers), `EVERLEAF_SEED`
//! where the random numbers start. Each tier says on stderr how many kills it made.

mod common;
mod kills;

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use common::Place;
use kills::commands::Commands;
use kills::loads::{self, LINES, Life, Load, Loads};
use kills::{Tally, in_lanes};
use rand::RngExt;

/// Picks the aim of a kill. A mean life of some 60 ms lets 500 of them take a minute or two.
fn aim(random: &mut kills::Random) -> (&'static str, u64, Life) {
    match random.random_range(0..4) {
        // The open of an old pool, or the making of a new one.
        0 => ("open", LINES, Life::Micros(random.random_range(0..12_000))),
        // The last acknowledgement has come: the close is under way.
        1 => {
            let lines = random.random_range(1..8_000);
            (
                "close",
                lines,
                Life::Acked(lines, Duration::from_micros(random.random_range(0..6_000))),
            )
        }
        _ => {
            let part: f64 = random.random_range(0.0..1.0);
            ("load", LINES, Life::Micros((part * part * 250_000.0) as u64))
        }
    }
}

#[test]
fn what_a_load_acknowledged_survives_kill_9() {
    let tally = Tally::new("kill -9, load --ack");
    in_lanes(kills::count(), |lane| {
        let mut loads = Loads::default();
        let mut place = Place::new();
        for run in lane.runs.clone() {
            if run % 4 == 0 {
                (place, loads) = (Place::new(), Loads::default());
            }
            let (aim, lines, life) = aim(&mut lane.random);
            let interval = ["1", "5", "10", "30"][lane.random.random_range(0..4)];
            let pause_every = [20, 500, 5_000, LINES][lane.random.random_range(0..4)];
            let load = Load { run, lines, pause_every, interval, ..Load::default() };
            let end = loads::load_and_kill(&place, &load, life);
            tally.add(if end.killed { aim } else { "after its end" });
            loads.verify(&place, &load, &end);
        }
    });
}

#[test]
fn what_put_and_del_acknowledged_by_their_exit_survives_kill_9() {
    let tally = Tally::new("kill -9, put and del");
    in_lanes(kills::count(), |lane| {
        let mut commands = Commands::new();
        for run in lane.runs.clone() {
            if run % 50 == 0 {
                commands = Commands::new();
            }
            tally.add(commands.run_and_kill(&mut lane.random));
        }
    });
}

/// A load is killed, and then the processes that open its pool, until one of them comes through.
#[test]
fn an_open_that_is_killed_can_be_made_again() {
    let tally = Tally::new("kill -9, recovery");
    let left = AtomicI64::new(kills::count() as i64);
    in_lanes(kills::count(), |lane| {
        let mut recovery = kills::recovery::Recovery::new();
        for run in lane.runs.clone() {
            if left.load(Ordering::Relaxed) <= 0 {
                return;
            }
            let kills = recovery.round(run, &mut lane.random);
            kills.iter().for_each(|what| tally.add(what));
            left.fetch_sub(kills.len() as i64, Ordering::Relaxed);
        }
    });
}

#[test]
fn readers_are_refused_until_the_writer_is_killed() {
    let tally = Tally::new("kill -9, with readers");
    in_lanes(kills::count().div_ceil(5), |lane| {
        for run in lane.runs.clone() {
            let kills = kills::readers::round(run, &mut lane.random);
            kills.iter().for_each(|what| tally.add(what));
        }
    });
}
