//! Handles whose writes are durable when they return: after each the power is cut, and nothing is missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use everleaf::io::{Fault, SimIo};
use everleaf::{Db, Durability, Error, Options, Tree};
use everleaf_testing::vecs;

type Content = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// Without threads, so that nothing becomes durable by itself.
fn open(io: &SimIo, durability: Durability) -> Db {
    let options = Options::new().background(false).durability(durability);
    options.open_on(Arc::new(io.clone()), "p").expect("it opens")
}

fn content(db: &Db) -> Content {
    let of = |name: String| {
        let tree = db.tree(&name).expect("it is there");
        let pairs =
            tree.iter().map(|pair| pair.map(vecs)).collect::<Result<_, _>>().expect("sound");
        (name, pairs)
    };
    db.tree_names().expect("sound").into_iter().map(of).collect()
}

/// A call on the pool and its tree `t`.
type Call = fn(&Db, &Tree) -> everleaf::Result<()>;

/// Each call that writes.
const CALLS: &[(&str, Call)] = &[
    ("put", |_, t| t.put("a", "put")),
    ("put_from", |_, t| t.put_from("b", &[7; 100_000][..], 100_000)),
    ("insert", |_, t| t.insert("c", "1").map(drop)),
    ("insert_new", |_, t| t.insert_new("d", "1").map(drop)),
    ("replace", |_, t| t.replace("d", "2").map(drop)),
    ("compare_and_swap", |_, t| t.compare_and_swap("d", Some("2"), Some("3")).map(drop)),
    ("update", |_, t| t.update("d", |_| Some(b"4".to_vec())).map(drop)),
    ("load_sorted", |_, t| t.load_sorted([("m", "1"), ("n", "2"), ("o", "3")]).map(drop)),
    ("delete", |_, t| t.delete("a")),
    ("remove", |_, t| t.remove("c").map(drop)),
    ("pop_first", |_, t| t.pop_first().map(drop)),
    ("pop_last", |_, t| t.pop_last().map(drop)),
    ("remove_range", |_, t| t.remove_range("m"..).map(drop)),
    ("tree", |db, _| db.tree("new").map(drop)),
    ("rename_tree", |db, _| db.rename_tree("new", "newer").map(drop)),
    ("batch", |db, t| {
        let mut batch = db.batch();
        batch.put(t, "x", "1")?;
        batch.put(t, "y", "2")?;
        batch.commit()
    }),
    ("transact", |db, t| db.transact(|tx| tx.put(t, "z", "1"))),
    ("begin", |db, t| {
        let tx = db.begin();
        tx.delete(t, "z")?;
        tx.commit()
    }),
    ("clear", |_, t| t.clear().map(drop)),
    ("drop_tree", |db, _| db.drop_tree("newer").map(drop)),
];

/// Makes each call through handles of one durability, and cuts the power after it.
fn is_durable_when_it_returns(io: &SimIo, (db, tree): (&Db, &Tree)) {
    let mut before = content(db);
    for (name, call) in CALLS {
        call(db, tree).expect(name);
        let after = content(db);
        assert_ne!(before, after, "{name} changes something");
        let cut = open(&io.power_cut(3), Durability::Buffered);
        assert_eq!(content(&cut), after, "{name}");
        before = after;
    }
}

#[test]
fn each_call_of_a_synced_pool_is_durable_when_it_returns() {
    let io = SimIo::new(11);
    let db = open(&io, Durability::Sync);
    let tree = db.tree("t").expect("room");
    is_durable_when_it_returns(&io, (&db, &tree));
}

#[test]
fn each_call_of_synced_handles_is_durable_when_it_returns() {
    for tree_of_the_handle in [true, false] {
        let io = SimIo::new(14);
        let buffered = open(&io, Durability::Buffered);
        let db = buffered.with(Durability::Sync);
        // A tree has the durability of the handle that it comes from, and may get another one.
        let tree = match tree_of_the_handle {
            true => db.tree("t").expect("room"),
            false => {
                let tree = buffered.tree("t").expect("room");
                buffered.sync().expect("room");
                tree.with(Durability::Sync)
            }
        };
        is_durable_when_it_returns(&io, (&db, &tree));
    }
}

#[test]
fn no_call_of_buffered_handles_waits() {
    for handle_of_the_open in [true, false] {
        let io = SimIo::new(12);
        let buffered = Durability::Buffered;
        let db = if handle_of_the_open {
            open(&io, buffered)
        } else {
            open(&io, Durability::Sync).with(buffered)
        };
        let tree = db.tree("t").expect("room");
        let durable = db.durable_epoch();
        for (name, call) in CALLS {
            call(&db, &tree).expect(name);
            assert_eq!(db.durable_epoch(), durable, "{name}");
        }
        assert_eq!(content(&open(&io.power_cut(5), buffered)), Content::new());
    }
}

#[test]
fn the_handles_of_trees_say_nothing_of_a_batch_or_a_transaction() {
    let io = SimIo::new(15);
    let db = open(&io, Durability::Buffered);
    let tree = db.tree("t").expect("room").with(Durability::Sync);
    let durable = db.durable_epoch();
    let mut batch = db.batch();
    batch.put(&tree, "a", "1").expect("memory");
    batch.commit().expect("room");
    db.transact(|tx| tx.put(&tree, "b", "1")).expect("alone");
    assert_eq!(db.durable_epoch(), durable);
    // Those of a synced pool wait, through whichever handles they write.
    let mut batch = db.with(Durability::Sync).batch();
    batch.put(&tree.with(Durability::Buffered), "c", "1").expect("memory");
    batch.commit().expect("room");
    assert!(db.durable_epoch() > durable);
}

#[test]
fn reads_and_what_finds_nothing_to_do_wait_for_nothing() {
    let io = SimIo::new(16);
    let db = open(&io, Durability::Sync);
    let tree = db.tree("t").expect("room");
    tree.with(Durability::Buffered).put("a", "1").expect("room");
    let durable = db.durable_epoch();
    assert!(tree.get("a").expect("sound").is_some());
    assert_eq!(db.tree("t").expect("it is there").len().expect("sound"), 1);
    assert!(!db.drop_tree("none").expect("sound") && !tree.replace("none", "").expect("sound"));
    let swap = tree.compare_and_swap("a", None, Some("2")).expect("sound");
    assert!(!swap.is_done());
    assert_eq!(db.durable_epoch(), durable);
}

#[test]
fn a_wait_that_fails_is_an_error_of_the_call() {
    let io = SimIo::new(13);
    let db = open(&io, Durability::Sync);
    let tree = db.tree("t").expect("room");
    io.fail_at(io.calls(), Fault::Io);
    let failed = tree.put("a", "1");
    assert!(matches!(failed, Err(Error::Io { .. } | Error::Poisoned { .. })), "{failed:?}");
    assert_eq!(tree.get("a").expect("sound").as_deref(), Some(&b"1"[..]));
}
