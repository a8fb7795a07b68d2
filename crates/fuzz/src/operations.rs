//! Operations on a pool, each held against `BTreeMap`.

use std::ops::Bound;

use everleaf::{Bytes, Db};
use everleaf_file::io::SimIo;

use crate::input::Input;
use crate::script::{self, Model, TREES};

/// Operations that one input does at most.
const OPS_MAX: usize = 400;

/// Runs the operations in `data`.
///
/// # Panics
/// If the pool says anything else than the model, or an operation fails.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let disk = SimIo::new(1);
    let options = script::options([512, 512, 1024, 4096][input.below(4)]);
    let mut model = Model::new();
    let mut db = script::open(&disk, &options).expect("a new pool");
    for no in 0..OPS_MAX {
        if input.is_empty() {
            break;
        }
        let fine = "no fault was injected";
        let op = input.u8();
        let tree = usize::from(op % 3);
        let done = match op {
            0..=9 => db.sync(),
            10..=19 => db.checkpoint(),
            20..=24 => script::fill(&db, &mut model, tree, input.u8(), input.u8()),
            25..=29 => script::thin_out(&db, &mut model, tree),
            30..=59 => script::batch(&mut input, &db, &mut model),
            60..=99 => {
                range(&mut input, &db, &model, tree);
                Ok(())
            }
            100..=109 => {
                look(&mut input, &db, &model, tree);
                Ok(())
            }
            110..=114 => {
                if no % 2 == 0 {
                    db.close().expect(fine);
                } else {
                    drop(db);
                }
                db = script::open(&disk, &options).expect(fine);
                Ok(())
            }
            _ => script::change(&mut input, &db, &mut model, tree),
        };
        if script::ended(done) {
            return;
        }
    }
    assert_eq!(script::contents(&db).expect("sound"), script::without_empty(model.clone()));
    assert_eq!(db.check().expect("it can be read"), []);
    db.close().expect("no fault was injected");
    let db = script::open(&disk, &options.read_only(true)).expect("it was closed");
    assert_eq!(script::contents(&db).expect("sound"), script::without_empty(model));
}

fn look(input: &mut Input<'_>, db: &Db, model: &Model, no: usize) {
    let Some(tree) = db.open_tree(TREES[no]).expect("sound") else { return };
    let entries = &model[TREES[no]];
    let key = script::key(input);
    assert_eq!(tree.get(&key).expect("sound").map(Bytes::into_vec), entries.get(&key).cloned());
    assert_eq!(tree.contains(&key).expect("sound"), entries.contains_key(&key));
    let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| (key[..].into(), value[..].into());
    assert_eq!(tree.first().expect("sound"), entries.first_key_value().map(pair));
    assert_eq!(tree.last().expect("sound"), entries.last_key_value().map(pair));
}

/// A range from one or both ends, in the order that the input says.
fn range(input: &mut Input<'_>, db: &Db, model: &Model, no: usize) {
    let Some(tree) = db.open_tree(TREES[no]).expect("sound") else { return };
    let mut bound = || match input.u8() % 4 {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(script::key(input)),
        _ => Bound::Included(script::key(input)),
    };
    let (from, to) = (bound(), bound());
    let inside = |key: &Vec<u8>| {
        let after = match &from {
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
            Bound::Unbounded => true,
        };
        let before = match &to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        };
        after && before
    };
    let entries = model[TREES[no]].iter().filter(|(key, _)| inside(key));
    let mut expected = entries.map(|(key, value)| (key[..].into(), value[..].into()));
    let mut found = tree.range((from.clone(), to.clone()));
    let mut ends = u16::from(input.u8()) << 8 | u16::from(input.u8());
    loop {
        let (is, should) = match ends & 1 {
            0 => (found.next(), expected.next()),
            _ => (found.next_back(), expected.next_back()),
        };
        ends = ends.rotate_right(1);
        let is = is.transpose().expect("sound");
        assert_eq!(is, should, "the range {from:x?} to {to:x?}");
        if should.is_none() {
            break;
        }
    }
}
