//! Operations, a power cut, maybe another one inside recovery, and what must be there after.
//!
//! Without threads an epoch ends only in a sync, a checkpoint or a close, so what is there after a cut
//! is what the model held at one of these: not before the last that had returned, and not behind the
//! one under way.

use everleaf_file::io::SimIo;

use crate::input::Input;
use crate::script::{self, Model};

/// Operations that one input does at most.
const OPS_MAX: usize = 120;

/// The model as it was when an epoch was ended.
struct CrashEnd {
    model: Model,
    /// The number of calls before it began, and when it had returned.
    began: u64,
    returned: u64,
}

/// Runs operations, cuts the power, recovers, compares.
///
/// # Panics
/// If something acknowledged is lost, something is there that never was, or the pool is damaged.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let options = script::options([512, 512, 1024, 4096][input.below(4)]);
    let (at, seed, again) = (u64::from(input.u16()), input.u64(), input.u8());
    let disk = SimIo::new(seed);
    let at = at % 1024;
    disk.cut_at(at, (seed & 7 != 0).then_some(seed));
    let ends = operate(&mut input, &disk, &options);
    let (mut after, cut) = match disk.take_cut() {
        Some(after) => (after, at),
        None => (disk.power_cut(seed), disk.calls()),
    };
    if again != 0 {
        after = cut_recovery(&after, &options, u64::from(again), seed);
    }
    let acknowledged = ends.iter().rposition(|end| end.returned <= cut);
    let possible = &ends[acknowledged.unwrap_or(0)..];
    let db = script::open(&after, &options).expect("a pool survives every power cut");
    let found = script::contents(&db).expect("sound");
    let fits = |end: &&CrashEnd| end.began <= cut && end.model == found;
    let before_all = acknowledged.is_none() && found.is_empty();
    assert!(
        before_all || possible.iter().any(|end| fits(&end)),
        "cut at call {cut}: {} ends of epochs, the {acknowledged:?}th was acknowledged; found {found:x?}",
        ends.len(),
    );
    assert_eq!(db.check().expect("it can be read"), []);
    let mut model = found;
    script::fill(&db, &mut model, 1, 9, 30).expect("it can be written to");
    db.close().expect("and closed");
    let db = script::open(&after, &options).expect("it was closed");
    assert_eq!(script::contents(&db).expect("sound"), model);
}

fn operate(input: &mut Input<'_>, disk: &SimIo, options: &everleaf::Options) -> Vec<CrashEnd> {
    let fine = "this disk goes on";
    let mut ends = Vec::new();
    let mut model = Model::new();
    let mut db = script::open(disk, options).expect(fine);
    for _ in 0..OPS_MAX {
        if input.is_empty() {
            break;
        }
        let op = input.u8();
        let tree = usize::from(op % 3);
        let began = disk.calls();
        let done = match op {
            0..=29 => db.sync(),
            // Ends none.
            30..=39 => db.checkpoint(),
            40..=49 => db.end_epoch().and_then(|epoch| db.wait_durable(epoch)),
            50..=54 => {
                db.close().expect(fine);
                db = script::open(disk, options).expect(fine);
                Ok(())
            }
            55..=59 => script::fill(&db, &mut model, tree, 2, input.u8()),
            60..=64 => script::thin_out(&db, &mut model, tree),
            65..=79 => script::batch(input, &db, &mut model),
            _ => script::change(input, &db, &mut model, tree),
        };
        if script::ended(done) {
            break;
        }
        if op < 55 && !(30..=39).contains(&op) {
            let model = script::without_empty(model.clone());
            ends.push(CrashEnd { model, began, returned: disk.calls() });
        }
    }
    let began = disk.calls();
    drop(db);
    ends.push(CrashEnd { model: script::without_empty(model), began, returned: disk.calls() });
    ends
}

/// Opens the disk, uses it, and cuts the power again while that goes on.
fn cut_recovery(disk: &SimIo, options: &everleaf::Options, at: u64, seed: u64) -> SimIo {
    disk.cut_at(disk.calls() + at % 64, Some(seed ^ 1));
    if let Ok(db) = script::open(disk, options) {
        // It changes nothing that a reader can see.
        db.sync().and_then(|()| db.checkpoint()).expect("this disk goes on");
        drop(db);
    }
    disk.take_cut().unwrap_or_else(|| disk.power_cut(seed ^ 1))
}
