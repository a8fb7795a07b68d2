//! Readers beside a writer: whatever they see before they validate, they end; what they validated is true.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf_pmem::{Medium, Page, Seen};
use everleaf_testing::{Rng, times};
use everleaf_tree::node::Rank;
use everleaf_tree::slotted::{Edit, Image, Value, View, build, compact, remove};

use super::medium::Noted;

const KEYS: u64 = 60;

/// Keys that tie, of several lengths.
fn key(i: u64) -> Vec<u8> {
    [&b"same by"[..], &vec![0; i as usize % 7], &i.to_be_bytes()[6..]].concat()
}

/// A value that says which key it is of, and what length it has.
fn value(i: u64, n: u64) -> Vec<u8> {
    let n = n % 40;
    [&[i as u8, n as u8][..], &vec![i as u8 ^ n as u8; n as usize]].concat()
}

fn no_far(_: u64) -> everleaf_pmem::Result<std::cmp::Ordering> {
    unreachable!("no key is long")
}

fn write(m: &Noted, page: Page<'_>, rng: &mut Rng) {
    let _held = page.latch().lock();
    let (view, i) = (View::read(page), rng.below(KEYS));
    let (rank, old) = view.locate(&key(i), |_| Ok(std::cmp::Ordering::Equal)).expect("sound");
    match rng.below(8) {
        0 => compact(m, &mut (), &view, None),
        1..3 if rank.exact => remove(m, &mut (), &view, rank.lt()),
        _ => {
            let mut edit = Edit::default();
            let value = value(i, rng.next());
            let key = key(i);
            if edit.put(&view, (rank, old.as_ref()), &key, Value::Inline(&value)) {
                edit.apply(m, &mut (), &view);
            }
        }
    }
    m.take_notes();
}

/// Reads one key; whether the read was valid.
fn read(page: Page<'_>, i: u64, to: &mut Vec<u8>) -> bool {
    let Seen::Ready(version) = page.latch().read_version() else { return false };
    let view = View::read(page);
    let rank = view.rank(&key(i), no_far);
    let mut found = None;
    if let Ok(Rank { le, exact: true }) = rank {
        found = Some(view.value_into(le - 1, to));
    }
    let _ = view.cmp_high(&key(i), no_far);
    if !page.latch().validate(version) {
        return false;
    }
    assert!(rank.is_ok(), "damage is no answer that is valid");
    if let Some(found) = found {
        assert_eq!(found.expect("sound"), None);
        assert_eq!(*to, value(i, u64::from(to[1])));
    }
    true
}

/// Ends the readers.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn readers_end_beside_a_writer_and_believe_what_they_validate() {
    let m = Noted::new(1024, 1);
    let page = m.page(0).expect("inside");
    {
        let mut held = page.latch().lock();
        build(&m, &mut (), page, &mut Image::empty(1024, 0).expect("memory"));
        held.set_ready();
    }
    let writes = times(if cfg!(miri) { 50 } else { 60_000 });
    let (ended, valid) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // Readers end even if the writer panics.
        let end = Ended(&ended);
        for seed in 0..2 {
            let (m, ended, valid) = (&m, &ended, &valid);
            scope.spawn(move || {
                let (mut rng, mut to) = (Rng(seed), Vec::new());
                let page = m.page(0).expect("inside");
                while !ended.load(Ordering::Relaxed) {
                    let is_valid = read(page, rng.below(KEYS), &mut to);
                    valid.fetch_add(u64::from(is_valid), Ordering::Relaxed);
                }
            });
        }
        let mut rng = Rng(9);
        for _ in 0..writes {
            write(&m, page, &mut rng);
        }
        drop(end);
    });
    assert!(valid.into_inner() > 0);
}
