//! Strict media: whatever lines a power cut keeps, an opened pool holds every record and node whose
//! step was complete, and nothing in it is damaged.

mod common;

use std::collections::{BTreeMap, HashSet};

use common::{Model, read, rng};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Geometry, Sim};
use everleaf_pool::kind::{ANCHOR, NODE};
use everleaf_pool::{Hooks, Leaks, Pool, anchor};
use rand::RngExt;

/// One line: its stores in order, how many must survive, how many each thread has flushed.
#[derive(Default, Clone)]
struct Line {
    stores: Vec<(u32, u64)>,
    floor: usize,
    flushed: usize,
}

/// The record so far, as lines with the stores that a power cut may lose.
#[derive(Default)]
struct Replay {
    lines: BTreeMap<u32, Line>,
    base: BTreeMap<u32, u64>,
}

impl Replay {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Store { word, value } => {
                self.lines.entry(word / 8).or_default().stores.push((word, value));
            }
            Event::Flush { line, .. } => {
                let line = self.lines.entry(line).or_default();
                line.flushed = line.stores.len();
            }
            Event::Fence { .. } => {
                for line in self.lines.values_mut() {
                    line.floor = line.floor.max(line.flushed);
                    for (word, value) in line.stores.drain(..line.floor) {
                        self.base.insert(word, value);
                    }
                    (line.floor, line.flushed) = (0, 0);
                }
                self.lines.retain(|_, line| !line.stores.is_empty());
            }
            Event::Mark { .. } => (),
        }
    }

    /// A legal image: `keep` says how many of a line's stores survive.
    fn image(&self, words: usize, mut keep: impl FnMut(usize) -> usize) -> Vec<u64> {
        let mut image = vec![0; words];
        self.base.iter().for_each(|(word, value)| image[*word as usize] = *value);
        for line in self.lines.values() {
            let kept = keep(line.stores.len());
            line.stores[..kept].iter().for_each(|(word, value)| image[*word as usize] = *value);
        }
        image
    }
}

fn open(geometry: Geometry, limit: u32, image: &[u64]) -> Pool<Sim> {
    let m = Sim::from_image(geometry, limit, image).unwrap();
    let pool = Pool::open(m, Hooks::default()).unwrap();
    assert_eq!(pool.check(), []);
    pool
}

/// Records and nodes named during the step between two models: a new one is linked after it is whole,
/// and an old one was unlinked before it is freed.
fn in_both(before: &Model, after: &Model) -> Model {
    let mut both = before.clone();
    both.records.retain(|r, _| after.records.contains_key(r));
    both.nodes.retain(|no, _| after.nodes.contains_key(no));
    both
}

fn verify(geometry: Geometry, limit: u32, image: &[u64], before: &Model, after: &Model) {
    let pool = open(geometry, limit, image);
    let held: Vec<_> = pool.records().map(|r| r.unwrap()).collect();
    for (r, pair) in before.records.iter().filter(|(r, _)| after.records.contains_key(r)) {
        assert!(held.contains(r), "{r:?} is lost");
        assert_eq!(&read(&pool, *r).unwrap(), pair);
    }
    for r in held {
        assert!(read(&pool, r).is_ok());
        assert!(before.records.contains_key(&r) || after.records.contains_key(&r), "{r:?}");
    }
    let map = pool.map_bytes().unwrap();
    for no in before.nodes.keys().filter(|no| after.nodes.contains_key(no)) {
        assert_eq!(map[*no as usize], NODE);
    }
    let goes_on = in_both(before, after);
    give_back(&pool, &goes_on);
    for r in goes_on.records.keys() {
        common::release(&pool, *r).unwrap();
    }
    common::put(&pool, b"more", b"").unwrap();
    assert_eq!(pool.check(), []);
}

/// Everything that a pool holds and a model does not name.
fn leaks(pool: &Pool<Sim>, model: &Model) -> Leaks {
    let records: HashSet<_> = model.records.keys().copied().collect();
    let is_named = |kind, no| kind == NODE && model.nodes.contains_key(&no);
    pool.leaks(is_named, &records).unwrap()
}

/// Gives back what a crash leaked; a pool that is opened after it holds what the model names.
fn give_back(pool: &Pool<Sim>, model: &Model) {
    let found = leaks(pool, model);
    pool.reclaim(&found).unwrap();
    assert_eq!(leaks(pool, model), Leaks::default());
    assert_eq!(pool.check(), []);
    assert!(pool.records().map(|r| r.unwrap()).eq(model.records.keys().copied()));
    let pages: HashSet<_> = model.records.keys().map(|r| r.page()).collect();
    let stats = pool.stats().unwrap();
    assert_eq!((stats.nodes as usize, stats.anchors), (model.nodes.len(), 1));
    // Places that were found may be listed now; nothing else keeps a page.
    assert_eq!(stats.records as usize, pages.len());
}

/// Crashes the giving back of what an image leaks; what is found later is what is left.
fn crash_giving_back(geometry: Geometry, limit: u32, image: &[u64], model: &Model) -> usize {
    let pool = open(geometry, limit, image);
    let mut replay = Replay::default();
    replay.base.extend((0..).zip(image.iter().copied()));
    let images = images_of(&pool, &mut replay, || give_back(&pool, model));
    for (i, image) in images.iter().enumerate() {
        let pool = open(geometry, limit, image);
        if i + 1 == images.len() {
            assert_eq!(leaks(&pool, model), Leaks::default(), "durable on return");
        }
        give_back(&pool, model);
        for (r, pair) in &model.records {
            assert_eq!(&read(&pool, *r).unwrap(), pair);
        }
    }
    images.len() - 1
}

#[test]
fn every_crash_leaves_complete_steps_and_no_damage() {
    // The last one has whole pages, 448 in a group.
    for seed in 0..7u64 {
        let (slots, limit) = if seed < 6 { (4 << (seed % 3), 400) } else { (28, 600) };
        let geometry = Geometry::from_slots(slots).unwrap();
        let pool = common::sim(geometry.slots() as u32, limit);
        let (mut model, mut random) = (Model::default(), rng(seed));
        // So many nodes that the second group comes into being on the way.
        for i in 0..everleaf_pool::max_record(geometry) as u64 - 20 {
            model.nodes.insert(common::make_node(&pool, i).unwrap(), i);
        }
        let mut models = vec![model.clone()];
        let mut events = pool.medium().take_events();
        pool.medium().mark(0);
        for step in 1..250 {
            if step % 16 == 0 {
                // A place that is reserved and never written leaves no trace but its page.
                let mut given_up = pool.step();
                given_up.record(geometry.slots() * 16).unwrap();
                given_up.publish_alloc(&mut ());
            }
            model.step(&pool, &mut random);
            models.push(model.clone());
            pool.medium().mark(step);
        }
        events.extend(pool.medium().take_events());

        let words = geometry.page_words() * limit as usize;
        let (mut replay, mut done, mut images, mut again) = (Replay::default(), None, 0, 0);
        for event in events {
            if let (Event::Fence { .. }, Some(step)) = (event, done) {
                let after = models.get(step + 1).unwrap_or(&model);
                for round in 0..6 {
                    let image = replay.image(words, |n| match round {
                        0 => 0,
                        1 => n,
                        _ => random.random_range(0..=n),
                    });
                    verify(geometry, limit, &image, &models[step], after);
                    images += 1;
                    if images % 64 == 0 {
                        let model = in_both(&models[step], after);
                        again += crash_giving_back(geometry, limit, &image, &model);
                    }
                }
            }
            if let Event::Mark { mark, .. } = event {
                done = Some(mark as usize);
            }
            replay.apply(event);
        }
        assert!(images > 500 && again > 100, "{images}, {again}");
    }
}

/// The images at the fences of what `act` does, and the least that survives its return.
fn images_of(pool: &Pool<Sim>, replay: &mut Replay, act: impl FnOnce()) -> Vec<Vec<u64>> {
    let words = pool.medium().image().len();
    pool.medium().take_events().into_iter().for_each(|e| replay.apply(e));
    act();
    let (mut images, mut random) = (Vec::new(), rng(1));
    for event in pool.medium().take_events() {
        if let Event::Fence { .. } = event {
            images.extend((0..40).map(|_| replay.image(words, |n| random.random_range(0..=n))));
        }
        replay.apply(event);
    }
    images.push(replay.image(words, |_| 0));
    images
}

#[test]
fn anchors_are_whole_and_their_roots_durable_on_return() {
    let pool = common::sim(4, 200);
    let open = |image: &[u64]| open(pool.geometry(), 200, image);
    let (mut replay, mut made) = (Replay::default(), 0);
    let node = common::make_node(&pool, 1).unwrap();
    let images = images_of(&pool, &mut replay, || {
        let mut step = pool.step();
        let (page, _held) = step.new_page(ANCHOR).unwrap();
        anchor::init(pool.medium(), &mut (), page, node);
        step.publish_alloc(&mut ());
        made = page.no();
    });
    images.iter().for_each(|image| drop(open(image)));
    assert_eq!(open(images.last().unwrap()).anchor(made).unwrap(), node);
    let other = common::make_node(&pool, 2).unwrap();
    let images = images_of(&pool, &mut replay, || {
        let (page, _held) = pool.latch(made).unwrap();
        anchor::set_root(pool.medium(), &mut (), page, other);
    });
    for image in &images {
        assert!([node, other].contains(&open(image).anchor(made).unwrap()));
    }
    assert_eq!(open(images.last().unwrap()).anchor(made).unwrap(), other);
}
