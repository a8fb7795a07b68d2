//! Golden counts: shifts, stores, flushed lines and fences of the strict circular tree against the
//! machine-independent acceptance table (errata, *Exact acceptance checks*, items 1–4 and 7).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use everleaf_pmem::{Counted, Counts, Dram, Geometry, Medium, Page, Result, Word};
use everleaf_tree::blink::{Blink, Only};
use everleaf_tree::keys::Words;
use everleaf_tree::node::{Bounds, Circular, Image, Layout, Probe, Run, Sentinel, Shape, Slot};
use everleaf_tree::{INDEX_ANCHOR, format};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const LEAF: Shape = Shape { level: 0, bytes: false, prefix: 0 };

/// A leaf with keys 10, 20, … and the medium that counts.
fn leaf(slots: u32, base: usize, count: usize) -> Counted<Dram> {
    let m = Counted::new(Dram::new(Geometry::new(slots).expect("valid"), 1).expect("memory"));
    let page = m.page(0).expect("there");
    let right = Bounds { sibling: 1, high: u64::MAX, high_record: 0 };
    Circular::build::<_, Sentinel>(&m, page, &Image { shape: LEAF, low: 1, right, slots: &[] });
    m.store(page.head(0), Run { base, count: 0 }.word());
    for i in 1..=count as u64 {
        Circular::insert::<_, Sentinel>(
            &m,
            page,
            LEAF,
            Run::of(page).count,
            Slot { ident: 10 * i, payload: i },
        );
    }
    m
}

fn cost(m: &Counted<Dram>, change: impl FnOnce(Page<'_>)) -> Counts {
    let before = m.counts();
    change(m.page(0).expect("there"));
    m.counts() - before
}

/// Distinct lines of the circular run `from..to` (logical, `from` may be -1).
fn lines(slots: usize, base: usize, from: isize, to: isize) -> u64 {
    let line = |pos: isize| (base as isize + pos).rem_euclid(slots as isize) / 4;
    (from..to).map(line).collect::<BTreeSet<_>>().len() as u64
}

#[test]
fn an_insert_flushes_the_lines_of_its_run_and_the_header() {
    for slots in [8, 32, 64] {
        for base in [0, 1, 3, slots - 2] {
            for n in 0..slots {
                let m = leaf(slots as u32, base, n);
                let base = Run::of(m.page(0).expect("there")).base;
                for pos in [0, n / 4, n / 2, n.saturating_sub(1), n] {
                    let m = leaf(slots as u32, base, n);
                    let slot = Slot { ident: 10 * pos as u64 + 5, payload: 0 };
                    let got =
                        cost(&m, |page| Circular::insert::<_, Sentinel>(&m, page, LEAF, pos, slot));
                    let (pos, n) = (pos as isize, n as isize);
                    let left = pos < n - pos;
                    let run = if left {
                        lines(slots, base, -1, pos)
                    } else {
                        lines(slots, base, pos, n + 1)
                    };
                    let shifts = pos.min(n - pos) as u64;
                    assert_eq!(
                        got,
                        Counts { stores: 2 * shifts + 3, flushes: run + 1, fences: run + 1 },
                        "{slots} slots, base {base}, count {n}, position {pos}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_remove_shifts_the_shorter_side_and_removing_an_end_costs_two_lines() {
    for n in 1..=32usize {
        for pos in 0..n {
            let m = leaf(32, 0, n);
            let got = cost(&m, |page| Circular::remove::<_, Sentinel>(&m, page, LEAF, pos));
            let left = pos >= n.div_ceil(2);
            let shifts = if left { n - 1 - pos } else { pos } as u64;
            let (pos, n) = (pos as isize, n as isize);
            let run = if left { lines(32, 0, pos, n) } else { lines(32, 0, 0, pos + 1) };
            assert_eq!(got, Counts { stores: 2 * shifts + 2, flushes: run + 1, fences: run + 1 });
            if pos == 0 || pos == n - 1 {
                assert_eq!(got.flushes, 2, "one line and the header (item 7)");
            }
        }
    }
}

#[test]
fn a_full_node_of_255_shifts_63_and_a_half_slots_on_average() {
    let mut shifts = 0;
    for pos in 0..=255 {
        let m = leaf(256, 0, 255);
        let slot = Slot { ident: 10 * pos as u64 + 5, payload: 0 };
        shifts += (cost(&m, |page| Circular::insert::<_, Sentinel>(&m, page, LEAF, pos, slot))
            .stores
            - 3)
            / 2;
    }
    assert_eq!(shifts as f64 / 256.0, 63.5);
}

#[test]
fn ordered_fills_never_shift() {
    for (slots, flushes) in [(32, 64), (256, 512)] {
        for descending in [true, false] {
            let m = leaf(slots, 0, 0);
            let got = cost(&m, |page| {
                for i in 0..u64::from(slots) {
                    let (key, pos) =
                        if descending { (10_000 - i, 0) } else { (10 + i, i as usize) };
                    Circular::insert::<_, Sentinel>(
                        &m,
                        page,
                        LEAF,
                        pos,
                        Slot { ident: key, payload: 0 },
                    );
                }
            });
            assert_eq!(got.flushes, flushes, "{slots} slots, descending {descending}");
            assert_eq!(got.stores, 3 * u64::from(slots), "no shifts");
        }
    }
}

#[test]
fn an_update_in_place_stores_one_word_and_flushes_one_line() {
    let geometry = Geometry::new(32).expect("valid");
    let pool =
        Arc::new(format(Counted::new(Dram::new(geometry, 64).expect("memory"))).expect("formats"));
    let tree: Blink<_, Circular, Sentinel, Words> =
        Blink::create(Arc::clone(&pool), INDEX_ANCHOR).expect("space");
    tree.put(&7, &1, Only::Ever).expect("space");
    let before = pool.medium().counts();
    assert_eq!(tree.put(&7, &1, Only::Ever).expect("space").old, Some(1));
    assert_eq!(pool.medium().counts() - before, Counts { stores: 1, flushes: 1, fences: 1 });
}

thread_local!(static FLUSHES: Cell<u64> = const { Cell::new(0) });
thread_local!(static STORES: Cell<u64> = const { Cell::new(0) });
thread_local!(static LEAF_INSERTS: Cell<[u64; 3]> = const { Cell::new([0; 3]) });

/// Memory that counts in thread-locals, so that a layout can see the counts.
struct Tally(Dram);

impl Medium for Tally {
    everleaf_pmem::pass_on!(0: Dram);
    fn store(&self, word: Word<'_>, value: u64) {
        STORES.set(STORES.get() + 1);
        self.0.store(word, value);
    }
    fn flush(&self, _: Page<'_>, _: usize) {
        FLUSHES.set(FLUSHES.get() + 1);
    }
    fn fence(&self) {}
}

/// The circular layout, with an eye on the inserts: [inserts, flushes in leaves, shifts anywhere].
struct Watched;

impl Layout for Watched {
    const NAME: &'static str = Circular::NAME;
    const HASH: u64 = Circular::HASH;
    const LOCK_FREE: bool = Circular::LOCK_FREE;
    fn capacity<M: Medium>(slots: usize, shape: Shape) -> usize {
        Circular::capacity::<M>(slots, shape)
    }
    fn insert<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize, slot: Slot) {
        let (flushes, stores) = (FLUSHES.get(), STORES.get());
        Circular::insert::<M, P>(m, page, shape, pos, slot);
        let [inserts, leaf, shifts] = LEAF_INSERTS.get();
        let is_leaf = u64::from(shape.level == 0);
        LEAF_INSERTS.set([
            inserts + is_leaf,
            leaf + is_leaf * (FLUSHES.get() - flushes),
            shifts + is_leaf * ((STORES.get() - stores - 3) / 2),
        ]);
    }
    fn remove<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize) {
        Circular::remove::<M, P>(m, page, shape, pos);
    }
    fn absorb<M: Medium, P: Probe>(
        m: &M,
        page: Page<'_>,
        shape: Shape,
        slots: &[Slot],
        to: Bounds,
    ) {
        Circular::absorb::<M, P>(m, page, shape, slots, to);
    }
    fn trim<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, keep: usize, to: Bounds) {
        Circular::trim::<M, P>(m, page, shape, keep, to);
    }
    fn build<M: Medium, P: Probe>(m: &M, page: Page<'_>, image: &Image<'_>) {
        Circular::build::<M, P>(m, page, image);
    }
    fn recover<M: Medium>(m: &M, page: Page<'_>, shape: Shape) -> Result<()> {
        Circular::recover(m, page, shape)
    }
}

/// Item 4: mean flushes and shifts of a leaf insert over a million uniform keys.
#[test]
fn a_million_uniform_inserts_cost_what_the_model_says() {
    let seed = 20_261_120;
    println!("seed {seed}");
    for (slots, flushes, shifts) in
        [(32, 3.436, 5.65), (64, 4.872, 11.44), (128, 7.749, 22.97), (256, 13.561, 46.23)]
    {
        let medium =
            Tally(Dram::new(Geometry::new(slots).expect("valid"), 1 << 17).expect("memory"));
        type Tree = Blink<Tally, Watched, Sentinel, Words>;
        let pool = Arc::new(Tree::format_pool(medium).expect("formats"));
        let tree = Tree::create(pool, INDEX_ANCHOR).expect("space");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        LEAF_INSERTS.set([0; 3]);
        for i in 0..1_000_000u64 {
            tree.put(&rng.random(), &i, Only::Ever).expect("space");
        }
        let [inserts, flushed, shifted] = LEAF_INSERTS.get().map(|x| x as f64);
        let (flushed, shifted) = (flushed / inserts, shifted / inserts);
        println!("{slots} slots: {flushed:.3} lines flushed, {shifted:.2} shifts per leaf insert");
        assert!(
            (flushed / flushes - 1.0).abs() < 0.01,
            "{slots}: {flushed} lines, model {flushes}"
        );
        assert!((shifted / shifts - 1.0).abs() < 0.02, "{slots}: {shifted} shifts, model {shifts}");
    }
}
