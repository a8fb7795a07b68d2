//! The commit of a transaction that has read without a cut: it keeps out whoever wants its leaves, and nobody else.
//!
//! ```text
//! pass       the gate, as any writer does
//! hold       the leaf of each write, at the version at which its key was read, or is found now
//! whole      no batch is half made, and no commit of the other kind
//! validate   the leaves that were only read are as they were, and nobody holds them
//! change     all leaves in one step, hence in one epoch; then let them go
//! ```
//!
//! **Why that is serializable.** The transaction happens at the moment of the validation. All that it has read is so then: what
//! it writes to cannot change any more, and the versions of the rest are those that it has seen. A writer that
//! later changes a leaf that it has read comes after it, and sees that: a get of what it writes waits for its latch. Of two
//! that read what the other one writes, each has latched its own leaf before it looks at the other one's; so one of them
//! finds a latch, and gives way. A fence stands between the two for that.
//!
//! Nobody sees a part: the first leaf that shows a change is let go when all of them are changed, and those that
//! are not yet let go are latched, so that a reader waits, and a transaction that has seen the old leaf finds it changed. A cut
//! waits at the gate. A batch changes one leaf after the other: so a commit that comes between finds that it is
//! not whole. A batch that begins later comes behind, at each leaf.
//!
//! **Nobody waits in a circle**, since nothing waits for a leaf here. An obstacle to this commit, be it a leaf that
//! somebody holds, a leaf without room, a large value, or two writes in one leaf, is for the other one, which closes the gate.
//!
//! After Silo (Tu and others, SOSP 2013), whose commits lock what they write, in an order, and then validate what they have
//! read. Here a leaf has the lock and the version, so phantoms need nothing of their own.

use std::sync::atomic::{Ordering, fence};

use everleaf_file::File;
use everleaf_pmem::{COUNTED_TREES, Medium, fallible};
use everleaf_tree::blink::{HeldLeaf, KeyPlace};

use super::file::FileStore;
use super::forecast;
use super::medium::DbMedium;
use super::open_tree::{Alone, Change, OpenTree, TreeChanges};
use crate::Result;

/// So many leaves are held at most, each of a tree of its own if need be.
const LEAVES: usize = COUNTED_TREES;

type Held<'b> = HeldLeaf<'b, 'b, <File as DbMedium>::Nodes>;
/// A leaf of a tree, once it is held.
type Leaf<'b> = (&'b OpenTree<File>, Option<Held<'b>>);

/// Those that are held.
fn held<'l, 'b>(
    leaves: &'l [Leaf<'b>],
) -> impl Iterator<Item = (&'b OpenTree<File>, &'l Held<'b>)> {
    leaves.iter().filter_map(|(tree, leaf)| Some((*tree, leaf.as_ref()?)))
}

impl FileStore {
    /// Makes the changes of a transaction that has read without a cut, if each is in a leaf of its own and needs nothing
    /// else. Says whether it has. If not, nothing has changed.
    ///
    /// # Errors
    /// Conflict, if what was read is not so any more; want of memory, a failed disk. Nothing has changed then.
    pub(super) fn commit_latched(
        &self,
        batch: &[TreeChanges<'_>],
        alone: &Alone<'_>,
    ) -> Result<bool> {
        let count = forecast::count(batch);
        if alone.cut.is_some() || count > LEAVES || !self.are_short(batch) {
            return Ok(false);
        }
        self.store.pool().throttle(forecast::adds(batch))?;
        let _pass = self.store.gate.pass();
        let mut leaves = fallible::list(count, "the leaves of a commit")?;
        if !hold_all(batch, &mut leaves)? {
            return Ok(false);
        }
        // Between the latches of this one and what it looks at from here on.
        fence(Ordering::SeqCst);
        if !self.store.versions.is_whole() {
            return Ok(false);
        }
        (alone.validate)(&|place| held(&leaves).any(|(_, leaf)| leaf.is_of(place)))?;
        let is_watched = self.store.versions.is_watched();
        let kept = if is_watched { keep_all(&leaves) } else { Ok(true) };
        let is_done = kept.and_then(|is_kept| Ok(is_kept && self.change_all(&mut leaves)?));
        leaves.iter_mut().filter_map(|(_, leaf)| leaf.as_mut()).for_each(HeldLeaf::let_go);
        for (tree, leaf) in held(&leaves) {
            tree.tree().tidy_held(leaf);
            if is_watched {
                tree.catch_up();
            }
        }
        is_done
    }

    /// Whether all notes of the changes are within what a step may note.
    fn are_short(&self, batch: &[TreeChanges<'_>]) -> bool {
        let bytes_of = |change: &Change<'_>| change.key.len() + change.value.map_or(0, <[u8]>::len);
        let bytes: usize = batch.iter().flat_map(|part| part.changes).map(bytes_of).sum();
        bytes <= 2 * self.store.pool().geometry().page_bytes()
    }

    /// Changes all leaves in one step. True.
    fn change_all(&self, leaves: &mut [Leaf<'_>]) -> Result<bool> {
        let mut op = self.store.medium().enter_for(2 * leaves.len())?;
        for (tree, leaf) in leaves {
            if let Some(leaf) = leaf {
                tree.tree().change_held(&mut op, leaf);
            }
        }
        Ok(true)
    }
}

/// Latches the leaf of each change. False if one cannot be had. All places are found before the first latch, since finding
/// one waits for whoever has its leaf: another such commit, or this one.
fn hold_all<'b>(batch: &'b [TreeChanges<'b>], leaves: &mut Vec<Leaf<'b>>) -> Result<bool> {
    let mut places = [None; LEAVES];
    for (place, (part, i)) in places.iter_mut().zip(each(batch)) {
        let Some(tree) = part.tree.on_file() else { return Ok(false) };
        *place = match part.seen.get(i).copied().flatten() {
            Some(seen) => Some(seen),
            None => place_of(tree, &part.changes[i])?,
        };
    }
    for (place, (part, i)) in places.into_iter().zip(each(batch)) {
        let (Some(tree), Some(place)) = (part.tree.on_file(), place) else { return Ok(false) };
        leaves.push((tree, None));
        let Some((_, leaf)) = leaves.last_mut() else { return Ok(false) };
        if !tree.writable()?.hold(part.changes[i], place, leaf)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The changes of a batch, each as its tree's and its place among them.
fn each<'b>(batch: &'b [TreeChanges<'b>]) -> impl Iterator<Item = (&'b TreeChanges<'b>, usize)> {
    batch.iter().flat_map(|part| (0..part.changes.len()).map(move |i| (part, i)))
}

/// Where a key is that was not read.
fn place_of(tree: &OpenTree<File>, change: &Change<'_>) -> Result<Option<KeyPlace>> {
    let mut place = [None];
    tree.writable()?.touch(&[*change], &[], &mut place)?;
    Ok(place[0])
}

/// Keeps what all changes replace. False if one value cannot be kept now.
fn keep_all(leaves: &[Leaf<'_>]) -> Result<bool> {
    for (tree, leaf) in held(leaves) {
        if !tree.tree().keep_held(&tree.keeper(), leaf)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::super::file::Place;
    use super::super::open_tree::TreeHandle;
    use super::*;
    use everleaf_tree::blink::Before;

    use crate::{Error, Options};

    type Pair<'p> = (&'p str, Option<&'p [u8]>);

    fn pool() -> (FileStore, Arc<OpenTree<File>>) {
        let store = FileStore::open(Place::Memory(64 << 20), &Options::new()).expect("memory");
        let tree = store.make_tree("t").expect("room");
        let _pass = store.store.gate.pass();
        for n in 0..2_000 {
            tree.set(key(n).as_bytes(), &[7; 20]).expect("room");
        }
        drop(_pass);
        (store, tree)
    }

    fn key(n: u32) -> String {
        format!("{n:05}")
    }

    fn changes<'p>(pairs: &'p [Pair<'p>]) -> Vec<Change<'p>> {
        let change = |(key, value): &Pair<'p>| Change { key: key.as_bytes(), value: *value };
        pairs.iter().map(change).collect()
    }

    /// Commits changes of trees, if the leaves can be had and `validate` agrees.
    fn commit(
        store: &FileStore,
        parts: &[(&Arc<OpenTree<File>>, &[Pair<'_>])],
        validate: impl Fn() -> Result<()>,
    ) -> Result<bool> {
        let trees: Vec<_> =
            parts.iter().map(|(tree, _)| TreeHandle::File(Arc::clone(tree))).collect();
        let lists: Vec<_> = parts.iter().map(|(_, pairs)| changes(pairs)).collect();
        let part = |(tree, changes)| TreeChanges { tree, changes, seen: &[] };
        let batch: Vec<_> =
            trees.iter().zip(lists.iter().map(|list| &list[..])).map(part).collect();
        let alone = Alone { validate: &|_| validate(), cut: None, has_locked: false };
        store.commit_latched(&batch, &alone)
    }

    fn has(tree: &OpenTree<File>, key: &str) -> Option<Vec<u8>> {
        tree.read(|tree| tree.get(key.as_bytes())).expect("sound")
    }

    #[test]
    fn what_is_in_leaves_of_its_own_is_changed_beside_other_writers() {
        let (store, tree) = pool();
        let other = store.make_tree("other").expect("room");
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            let (passed, has_passed) = channel();
            let store = &store;
            scope.spawn(move || {
                let _pass = store.store.gate.pass();
                passed.send(()).expect("somebody waits");
                told.recv_timeout(Duration::from_secs(60)).expect("nobody waits for this writer");
            });
            has_passed.recv().expect("the other one has passed");
            let of_tree: [Pair<'_>; 4] = [
                ("00000", Some(b"new")),
                ("00500", None),
                ("00800x", None),
                ("01500x", Some(b"more")),
            ];
            let parts: [(&_, &[Pair<'_>]); 2] = [(&tree, &of_tree), (&other, &[("a", Some(b""))])];
            assert!(commit(store, &parts, || Ok(())).expect("room"));
            tell.send(()).expect("it waits");
        });
        assert_eq!(has(&tree, "00000").as_deref(), Some(&b"new"[..]));
        assert_eq!((has(&tree, "00500"), has(&tree, "00800x")), (None, None));
        assert_eq!(has(&tree, "01500x").as_deref(), Some(&b"more"[..]));
        assert_eq!(has(&other, "a").as_deref(), Some(&b""[..]));
        let medium = store.store.medium();
        assert_eq!(medium.counted(tree.anchor()).expect("sound"), Some(2_000));
        assert_eq!(medium.counted(other.anchor()).expect("sound"), Some(1));
    }

    #[test]
    fn what_asks_for_more_than_its_leaf_is_for_the_other_way() {
        let (store, tree) = pool();
        let long = vec![1; 100_000];
        let far: Vec<_> = (0..17).map(|n| key(100 * n)).collect();
        let many: Vec<Pair<'_>> = far.iter().map(|key| (&key[..], Some(&b"new"[..]))).collect();
        let ways: [(&str, &[Pair<'_>]); 3] = [
            ("two in one leaf", &[("00000", Some(b"new")), ("00001", Some(b"new"))]),
            ("a large value", &[("00000", Some(b"new")), ("01000", Some(&long))]),
            ("many leaves", &many),
        ];
        for (what, pairs) in ways {
            assert!(!commit(&store, &[(&tree, pairs)], || Ok(())).expect("room"), "{what}");
            assert_eq!(has(&tree, "00000").as_deref(), Some(&[7; 20][..]), "{what}");
        }
    }

    #[test]
    fn a_leaf_that_is_full_is_for_the_other_way() {
        let (store, tree) = pool();
        for n in 0..200_u8 {
            let new = format!("01000x{n:03}");
            let pairs: &[Pair<'_>] = &[("00000", Some(&[n])), (&new, Some(&[9; 80]))];
            if !commit(&store, &[(&tree, pairs)], || Ok(())).expect("room") {
                let last = n.checked_sub(1).map_or(vec![7; 20], |n| vec![n]);
                assert_eq!(has(&tree, "00000"), Some(last));
                assert_eq!(has(&tree, &new), None);
                return;
            }
        }
        panic!("200 pairs of 89 bytes are in one leaf");
    }

    #[test]
    fn who_is_refused_has_changed_nothing_and_holds_nothing() {
        let (store, tree) = pool();
        let pairs: &[Pair<'_>] = &[("00000", Some(b"new")), ("01000", None)];
        let no = || Err(Error::Conflict { tree: "t".into(), key: Vec::new(), attempts: 1 });
        let refused = commit(&store, &[(&tree, pairs)], no);
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
        let whole = store.store.versions.begin_whole();
        let called = || panic!("a batch is half made");
        assert!(!commit(&store, &[(&tree, pairs)], called).expect("nothing is asked"));
        drop(whole);
        assert_eq!(has(&tree, "00000").as_deref(), Some(&[7; 20][..]));
        assert!(commit(&store, &[(&tree, pairs)], || Ok(())).expect("nobody holds a leaf"));
        assert_eq!(
            (has(&tree, "00000").as_deref(), has(&tree, "01000")),
            (Some(&b"new"[..]), None)
        );
    }

    #[test]
    fn what_is_replaced_is_kept_for_a_cut() {
        let (store, tree) = pool();
        let cut = store.store.cut();
        let pairs: &[Pair<'_>] = &[("00000", Some(b"new")), ("01000", None), ("01500x", Some(b""))];
        assert!(commit(&store, &[(&tree, pairs)], || Ok(())).expect("room"));
        for (key, was) in [("00000", Some([7; 20])), ("01000", Some([7; 20])), ("01500x", None)] {
            let before = tree.images().find(&cut, u64::MAX, key.as_bytes()).expect("memory");
            let before = before.unwrap_or_else(|| panic!("{key} has changed"));
            let was = was.map_or(Before::Absent, |was| Before::Value(was.to_vec()));
            assert_eq!(format!("{before:?}"), format!("{was:?}"), "{key}");
        }
        assert!(tree.images().find(&cut, u64::MAX, b"00001").expect("memory").is_none());
    }
}
