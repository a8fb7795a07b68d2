//! The questions that the spine asks of a node, and the parts that a tree is made of.
//!
//! The spine (descent, latches, readers, splits, merges, scans, checks) is written once. It knows
//! nodes only by the questions of these traits, and asks by position: 0 is the smallest key.
//!
//! | trait | question that a node answers |
//! |---|---|
//! | [`NodeReads`] | which keys are here, in which order, between which bounds, and which child or value has each? |
//! | [`NodeChanges`] | is there room for a pair, or for many at once, and how do they get in or out? |
//! | [`NodeRestructures`] | how is a node built, cut in two, merged with a neighbour, or evened out with one? |
//! | [`NodeChecks`] | what did a crash or damage leave of a node? |
//! | [`NodeBytes`] | only for byte strings: how is a pair copied into memory that is used again, or put piece by piece? |
//!
//! Two families of nodes answer. Nodes of equal *slots* are any tuple of a [layout](crate::slots::Layout),
//! a [probe](crate::slots::Probe) and [keys](crate::slots::Keys) (`slots`); the
//! papers' trees are made of them. [`Slotted`](crate::slotted::Slotted) nodes keep whole pairs of any
//! length; the Db on a file is made of them.
//!
//! ```
//! use everleaf_pmem::Dram;
//! use everleaf_tree::blink::Blink;
//! use everleaf_tree::slots::{Circular, Sentinel, Words};
//!
//! type CircTree = Blink<Dram, (Circular, Sentinel, Words)>;
//! # let _: Option<CircTree> = None;
//! ```

mod header;
mod pair;

use std::cmp::Ordering;
use std::mem;
use std::ops::Range;

use everleaf_pmem::{Change, Geometry, Medium, Page, PageNo, Result, SharedPair, fallible};
use everleaf_pool::{Large, LargeValue, Pool, RecordRef, Step, Stop, StoredValue};

use crate::slots::Slot;
use crate::slotted::LeafCopy;

pub use header::{
    FLAG_BYTES, FLAG_SLOTTED, HIGH_RECORD_WORD, HIGH_WORD, LOW_WORD, MAX_LEVEL, NodeView, RUN_WORD,
    Rank, RightBounds, Run, SIBLING_WORD, Shape, sibling,
};
pub(crate) use header::{KIND_AND_FLAGS, damaged};
pub(crate) use pair::check_limits;
pub use pair::{FarValue, TreeKey, TreeValue};

/// A kind of tree, apart from its medium: all that the spine asks of its nodes.
pub trait Kind: NodeReads + NodeChanges + NodeRestructures + NodeChecks {}

impl<K: NodeReads + NodeChanges + NodeRestructures + NodeChecks> Kind for K {}

/// A key of a kind of tree, to look for.
pub type KeyOf<K> = <K as NodeReads>::Key;
/// A key of a kind of tree that owns its bytes.
pub type OwnedKeyOf<K> = <KeyOf<K> as TreeKey>::Owned;
/// A value of a kind of tree, to be stored.
pub type InputOf<K> = <K as NodeChanges>::Input;
/// A value of a kind of tree that was found.
pub type ValueOf<K> = <K as NodeReads>::Value;

// Reads of a node: its keys in their order, its bounds, the values of leaves.

/// Which keys a node holds, between which bounds it lies, and which values its entries have. A read beside a
/// writer answers anything, reaches nothing outside the page and does not panic; the reader validates afterwards.
pub trait NodeReads: Send + Sync + Sized + 'static {
    /// A key to look for.
    type Key: ?Sized + TreeKey;
    /// A node's header, read once for several questions.
    type View<'m>: NodeView<'m>;
    /// One entry.
    type Entry<'m>: Copy;
    /// Whether readers can go on beside a writer where stores have an order.
    const LOCK_FREE: bool;
    /// Whether the prefix of a node holds only for keys within its bounds, so that no search may come to
    /// a node for a key beyond them.
    const PREFIXED: bool;
    /// A value that was found.
    type Value: TreeValue;
    /// A reference to a value that lies elsewhere.
    type Far<'p, M: Medium>: FarValue<Value = Self::Value>;

    /// The node on a page, if there is one of this kind. Its header is read here. A race may show anything: what leads
    /// into the page is cut to it, here or where it is used.
    fn node(page: Page<'_>) -> Option<NodeAt<'_, Self>>;

    /// The entry at a position.
    fn entry<'m>(at: &NodeAt<'m, Self>, pos: usize) -> Self::Entry<'m>;

    /// Asks the processor for what a search in the node reads first.
    fn prefetch(page: Page<'_>);

    /// Asks the processor for all that a scan of the leaf reads.
    fn prefetch_whole(page: Page<'_>);

    /// Ranks a key that lies within the node's bounds.
    fn rank<M: Medium>(pool: &Pool<M>, at: &NodeAt<'_, Self>, key: &Self::Key) -> Result<Rank>;

    /// The same, with the key's entry if it is there: a caller that asks for it afterwards decodes it once more.
    #[inline(always)]
    fn locate<'m, M: Medium>(
        pool: &Pool<M>,
        at: &NodeAt<'m, Self>,
        key: &Self::Key,
    ) -> Result<(Rank, Option<Self::Entry<'m>>)> {
        let rank = Self::rank(pool, at, key)?;
        Ok((rank, rank.exact.then(|| Self::entry(at, rank.le - 1))))
    }

    /// The result of `read` for the entry of a key in a leaf, if there is one. An entry is large: to return it
    /// would move it about.
    #[inline(always)]
    fn find<'m, M: Medium, T>(
        pool: &Pool<M>,
        at: &NodeAt<'m, Self>,
        key: &Self::Key,
        read: impl FnOnce(Self::Entry<'m>) -> Result<T>,
    ) -> Result<Option<T>> {
        Self::locate(pool, at, key)?.1.map(read).transpose()
    }

    /// The key of an entry.
    fn key<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        entry: Self::Entry<'_>,
    ) -> Result<OwnedKeyOf<Self>>;

    /// The key of an entry, into one whose memory is used again.
    fn key_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        entry: Self::Entry<'_>,
        key: &mut OwnedKeyOf<Self>,
    ) -> Result<()>;

    /// The child of an entry of an inner node.
    fn child<M: Medium>(pool: &Pool<M>, entry: Self::Entry<'_>) -> Result<PageNo>;

    /// The entry in a slot that was read beside a writer. Only asked where [`LOCK_FREE`](Self::LOCK_FREE).
    fn raced(slot: Slot) -> Self::Entry<'static>;

    /// Compares a key with the upper bound of a node that has a sibling.
    fn cmp_high<M: Medium>(
        pool: &Pool<M>,
        at: &NodeAt<'_, Self>,
        key: &Self::Key,
    ) -> Result<Ordering>;

    /// The lower bound of a node; `None` is -infinity.
    fn low<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Option<OwnedKeyOf<Self>>>;

    /// The upper bound of a node that has a sibling.
    fn high<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<OwnedKeyOf<Self>>;

    /// The value of an entry, or what leads to it.
    fn found<'p, M: Medium>(
        pool: &'p Pool<M>,
        entry: Self::Entry<'_>,
    ) -> Result<StoredValue<Self::Value, Self::Far<'p, M>>>;

    /// How many bytes the value of an entry of a leaf has, if they lie in the leaf.
    fn value_inside(_: Self::Entry<'_>) -> Option<usize> {
        None
    }

    /// Appends the value of such an entry to what may hold others; nothing if it does not lie in the leaf.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    fn append_inside(_: Self::Entry<'_>, _: &mut Self::Value) -> Result<()> {
        Ok(())
    }

    /// The key of an entry, and its value as [`found`](Self::found) has it.
    #[inline]
    #[allow(clippy::type_complexity)]
    fn pair<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        entry: Self::Entry<'_>,
    ) -> Result<(OwnedKeyOf<Self>, StoredValue<Self::Value, Self::Far<'p, M>>)> {
        Ok((Self::key(pool, shape, entry)?, Self::found(pool, entry)?))
    }

    /// How much of a node is used, and how much there is, in a measure that is the same for all nodes of a tree.
    fn fill(at: &NodeAt<'_, Self>) -> (usize, usize);

    /// The record that an entry refers to, if it refers to one.
    fn record(shape: Shape, entry: Self::Entry<'_>) -> Option<RecordRef>;
}

/// The value that was found: one that lies elsewhere is read. The caller holds no latch.
///
/// # Errors
/// I/O errors, Corrupt, NoMemory.
#[inline(always)]
pub fn settled<F: FarValue>(found: StoredValue<F::Value, F>) -> Result<F::Value> {
    match found {
        StoredValue::Inline(value) => Ok(value),
        StoredValue::External(far) => far.read(),
    }
}

/// A node as its reader or writer has it. The holder of its latch, or a reader that has validated
/// its version, has it as it is.
pub struct NodeAt<'m, K: NodeReads> {
    /// Its header.
    pub view: K::View<'m>,
}

impl<K: NodeReads> Copy for NodeAt<'_, K> {}

impl<K: NodeReads> Clone for NodeAt<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'m, K: NodeReads> NodeAt<'m, K> {
    /// The node on a page, if it is one of that level.
    #[inline(always)]
    pub fn of(page: Page<'m>, level: u8) -> Option<Self> {
        K::node(page).filter(|at| at.level() == level)
    }

    /// Its page.
    #[inline(always)]
    pub fn page(&self) -> Page<'m> {
        self.view.page()
    }

    /// Its shape.
    #[inline(always)]
    pub fn shape(&self) -> Shape {
        self.view.shape()
    }

    /// The page to its right, if there is one.
    #[inline(always)]
    pub fn sibling(&self) -> Option<PageNo> {
        self.view.sibling()
    }

    /// 0 for leaves.
    #[inline(always)]
    pub fn level(&self) -> u8 {
        self.shape().level
    }

    /// How many entries there are.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.view.count()
    }

    /// The entry at a position.
    #[inline(always)]
    pub fn entry(&self, pos: usize) -> K::Entry<'m> {
        K::entry(self, pos)
    }
}

/// A value that was found: a copy in memory of its own, or one that others hold, too.
#[derive(Debug, Default)]
pub struct FoundValue {
    own: Vec<u8>,
    lent: Option<SharedPair>,
}

impl FoundValue {
    /// A value of its own.
    pub fn new(own: Vec<u8>) -> Self {
        Self { own, lent: None }
    }
    /// The value.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.lent {
            None => &self.own,
            Some(pair) => pair.value(),
        }
    }
    /// The list for a value of its own: it has no other from now on.
    #[inline(always)]
    pub fn own(&mut self) -> &mut Vec<u8> {
        if self.lent.is_some() {
            self.let_go();
        }
        &mut self.own
    }
    #[cold]
    #[inline(never)]
    fn let_go(&mut self) {
        self.lent = None;
    }
    /// Holds another value.
    #[inline]
    pub(crate) fn lend(&mut self, pair: SharedPair) {
        self.lent = Some(pair);
    }
    /// The value as a list. O(1), or O(bytes) for one that others hold, too.
    ///
    /// # Errors
    /// NoMemory.
    pub fn take(&mut self) -> Result<Vec<u8>> {
        if let Some(pair) = self.lent.take() {
            self.own.clear();
            fallible::append(&mut self.own, pair.value(), "a large value")?;
        }
        Ok(mem::take(&mut self.own))
    }
    /// The pair whose value it is, if others hold that, too.
    #[inline]
    pub fn shared(&self) -> Option<&SharedPair> {
        self.lent.as_ref()
    }
    /// Bytes of memory that are its own.
    pub fn memory(&self) -> usize {
        self.own.capacity()
    }
}

// How pairs get into leaves and out of them: one by one, piece by piece, or many in ascending order at once.

/// A leaf that its writer has latched, and the place of the key in it.
pub struct PutPoint<'m, K: NodeReads> {
    /// The leaf.
    pub node: NodeAt<'m, K>,
    /// Where the key is or goes.
    pub rank: Rank,
    /// The entry of the key, if it is there.
    pub found: Option<K::Entry<'m>>,
}

/// Whether a pair can be put into its leaf.
#[derive(Debug, Clone, Copy)]
pub enum InLeaf {
    /// It is ready.
    Ready,
    /// The leaf has no room for it.
    NeedsRoom(Asking),
    /// More than the leaf would change: what is beside it needs a step of the pool.
    NeedsStep,
}

/// How many pairs fill a leaf at once.
pub struct Filling<K: NodeChanges> {
    /// How many pairs that is, the one in the new leaf among them.
    pub count: usize,
    /// The separator of the two leaves.
    pub separator: OwnedKeyOf<K>,
    /// The leaves.
    pub leaves: K::FilledLeaves,
}

/// How pairs get into a leaf and out of it: one by one, or many in ascending order at once. A pair is
/// [prepared](Self::prepare). Once its writer has latched the leaf, it is made [ready](Self::ready) and
/// [put into the leaf](Self::put_in_leaf); or, if that needs a step of the pool, [planned](Self::plan) and
/// [put](Self::put).
pub trait NodeChanges: NodeReads {
    /// Whether a longer value for a key that is there makes its leaf fuller.
    const VALUES_GROW: bool;
    /// A value to store.
    type Input: ?Sized;
    /// The preparations of a put, made before its step begins: large values are written. They are given back
    /// unless the step uses them.
    type Prepared<'p, M: Medium>;
    /// All that takes memory for a change of a leaf, made before it begins: then nothing may fail.
    type Ready<'a>: Default;
    /// A step's reservations for a pair, and its change of the leaf.
    type Plan<'a>;
    /// Whether that is ever done: several changes of a leaf in one step, and pairs that fill a leaf.
    const FILLS: bool;
    /// A leaf that is filled and the one behind it, made before the step begins.
    type FilledLeaves;

    /// Checks the limits of a pair, and writes what is too large for a step, ahead of it.
    ///
    /// # Errors
    /// KeyTooLong, ValueTooLong: each names the limit. RecordTooLong, Full, I/O errors.
    fn prepare<'p, M: Medium>(
        pool: &'p Pool<M>,
        key: &Self::Key,
        value: &Self::Input,
    ) -> Result<Self::Prepared<'p, M>>;

    /// Makes ready to put a pair into its place in a leaf, if that changes nothing else and the leaf has room for it. Of
    /// a pair that is not prepared, that is found out here.
    fn ready<'a, M: Medium>(
        ready: &mut Self::Ready<'a>,
        at: &PutPoint<'_, Self>,
        pair: (&'a Self::Key, &'a Self::Input),
        prepared: Option<&Self::Prepared<'_, M>>,
    ) -> InLeaf;

    /// Puts a pair that is ready.
    fn put_in_leaf<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        at: &PutPoint<'_, Self>,
        pair: (&Self::Key, &Self::Input),
        ready: &Self::Ready<'_>,
    );

    /// Plans what the pair needs beside a leaf that has room for it, and to give back what the entry refers to that it
    /// replaces; and makes ready what goes into the leaf.
    ///
    /// # Errors
    /// NoMemory, Corrupt, Full.
    fn plan<'s, 'p: 's, 'a, M: Medium>(
        step: &mut Step<'s, M>,
        at: &PutPoint<'_, Self>,
        pair: (&'a Self::Key, &'a Self::Input),
        prepared: &'s Self::Prepared<'p, M>,
    ) -> Result<Self::Plan<'a>, Stop>;

    /// Writes what `plan` reserved, and then puts the pair into its place in the leaf.
    fn put<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        at: &PutPoint<'_, Self>,
        plan: &Self::Plan<'_>,
        pair: (&Self::Key, &Self::Input),
        prepared: &'s Self::Prepared<'p, M>,
    );

    /// Plans to give back what an entry of a leaf refers to.
    fn release<M: Medium>(step: &mut Step<'_, M>, entry: Self::Entry<'_>) -> Result<(), Stop>;

    /// Takes the entry at a position out of a node, leaf or inner.
    fn remove<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        page: Page<'_>,
        shape: Shape,
        pos: usize,
    );

    /// Plans to put the first of some pairs behind the entries of a leaf, so that it is full, and one more into a new
    /// leaf behind it. The keys ascend from above the leaf's last one to below its upper bound. `None` if the pairs do
    /// not fill the leaf, or cannot be put like that.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    fn plan_fill(
        at: &NodeAt<'_, Self>,
        pairs: &[(&Self::Key, &Self::Input)],
    ) -> Result<Option<Filling<Self>>>;

    /// Stores both leaves, the new one first.
    fn fill_leaf<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        pages: (Page<'_>, Page<'_>),
        leaves: &mut Self::FilledLeaves,
    );
}

// How nodes are built, cut in two, merged, and evened out: a full node gives entries to a neighbour instead of a split.

/// The entry for which a node has no room.
#[derive(Debug, Clone, Copy)]
pub struct Asking {
    /// Where its key is, or goes.
    pub rank: Rank,
    /// How many bytes it takes, with its slot.
    pub bytes: usize,
    /// The entry itself, if a slot of words is all of it: a split may begin the right node with it.
    pub slot: Option<Slot>,
}

/// An entry for a child, if its node has room for it.
pub enum ChildEntry<E> {
    /// It has.
    Ready(E),
    /// It has none.
    NeedsRoom(Asking),
}

/// How full a node is, in units of its kind: slots, or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRoom {
    /// Units in use.
    pub load: usize,
    /// Units that there are.
    pub room: usize,
    /// Units that one more entry takes, at most.
    pub entry: usize,
    /// Units that a split sets free in each node, at least.
    pub gain: usize,
}

/// Runs a change of one node so that a crash on a medium without a journal leaves it as it was before
/// or whole; on other media it just runs it. Called once the right node of a split is built.
pub type UnderLog<'a> = dyn FnMut(&mut dyn FnMut()) + 'a;

/// Two neighbours under one parent, and the position of the right one's entry in it.
#[derive(Clone, Copy)]
pub struct Siblings<'m> {
    /// The left one.
    pub left: Page<'m>,
    /// The right one.
    pub right: Page<'m>,
    /// Their parent.
    pub parent: Page<'m>,
    /// Position of the right one's entry.
    pub entry: usize,
}

/// How a node is built, gets entries for children, is split, and becomes one with a neighbour or gives it entries.
pub trait NodeRestructures: NodeReads {
    /// Whether splits on a medium without a journal keep an undo log.
    const LOGGED: bool;
    /// The separator of a new tree's two leaves, by its [order](TreeKey::order); `None` if a new tree has one leaf.
    const FIRST_SEPARATOR: Option<u64>;
    /// The part of an entry that names a child.
    type Child: Copy;
    /// A new node, made before its step begins: it takes memory.
    type Built;
    /// An entry for a child, made before its step begins.
    type Entering<'a>;
    /// The preparations of a split, made before its step began.
    type PreparedSplit<'p, M: Medium>;
    /// A step's reservations for a split, and both nodes, made before it begins.
    type SplitPlan;
    /// A step's plan for a merge.
    type MergePlan;
    /// Whether a sparse leaf can get entries of its left neighbour by single stores, without a log (FAST+FAIR §4.2).
    const GIVES: bool;
    /// The plan of what a leaf gives.
    type GivePlan;
    /// Whether nodes of this kind are ever evened out.
    const EVENS: bool;
    /// The plan of what goes where.
    type EvenPlan;

    /// Makes an empty leaf, between the separator of a new tree, if it has one, and the end on its side;
    /// `right` is the separator and the sibling behind it.
    ///
    /// # Errors
    /// NoMemory.
    fn new_leaf<M: Medium>(
        pool: &Pool<M>,
        low: Option<&Self::Key>,
        right: Option<(&Self::Key, PageNo)>,
    ) -> Result<Self::Built>;

    /// Makes a root above two nodes and the separator between them.
    ///
    /// # Errors
    /// NoMemory.
    fn new_root<M: Medium>(
        pool: &Pool<M>,
        level: u8,
        below: (PageNo, &Self::Key, Self::Child),
    ) -> Result<Self::Built>;

    /// The part of an entry that names a child which begins at `separator`. Unless the caller `holds` the child's latch
    /// it may wait for it, so the caller holds its left neighbour's or none, and not its parent's.
    ///
    /// # Errors
    /// I/O errors, Corrupt.
    fn child_at<M: Medium>(
        pool: &Pool<M>,
        separator: &Self::Key,
        child: PageNo,
        holds: bool,
    ) -> Result<Self::Child>;

    /// Makes a page that nobody can reach the new node.
    fn build<'m, M: Medium>(m: &'m M, op: &mut M::Op<'m>, page: Page<'_>, built: &mut Self::Built);

    /// Makes an entry for a child ready, for an inner node; or says what it asks of a node that has no room for it.
    ///
    /// # Errors
    /// NoMemory, Corrupt.
    fn new_entry<'a, M: Medium>(
        at: &NodeAt<'_, Self>,
        rank: Rank,
        entry: (&'a Self::Key, Self::Child),
    ) -> Result<ChildEntry<Self::Entering<'a>>>;

    /// Puts an entry for a child into an inner node.
    fn enter<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        page: Page<'_>,
        shape: Shape,
        rank: Rank,
        entry: &mut Self::Entering<'_>,
    );

    /// How full a node on the way to `key` is, for a caller that must know before the first of several puts
    /// that none of them will fail. `value_bytes` is the length of the value; inner nodes get separators.
    fn stage<M: Medium>(at: &NodeAt<'_, Self>, key: &Self::Key, value_bytes: usize) -> NodeRoom;

    /// How many entries of a full node stay in it, at least one. If all do, the right node begins with the one that asks:
    /// that of an inner node is in it after the split, that of a leaf has its room there.
    ///
    /// # Errors
    /// Corrupt.
    fn split_point(at: &NodeAt<'_, Self>, asking: Asking) -> Result<usize>;

    /// Reads and prepares all for a split of `left` after its first `keep` entries, as [`split_point`](Self::split_point)
    /// has said for the entry that is `asking`. Answers the smallest key that belongs to the right node, too.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory.
    fn prepare_split<'p, M: Medium>(
        pool: &'p Pool<M>,
        left: Page<'_>,
        shape: Shape,
        keep: usize,
        asking: Asking,
    ) -> Result<(OwnedKeyOf<Self>, Self::PreparedSplit<'p, M>)>;

    /// Plans what the bounds of a split need beside the nodes, and makes both nodes ready.
    ///
    /// # Errors
    /// NoMemory, Corrupt, Full.
    fn plan_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        left: Page<'_>,
        prepared: &'s Self::PreparedSplit<'p, M>,
    ) -> Result<Self::SplitPlan, Stop>;

    /// Splits the left node: builds the right one whole, and then cuts the left one by `under_log`.
    fn split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        nodes: (Page<'_>, Page<'_>),
        plan: &mut Self::SplitPlan,
        prepared: &'s Self::PreparedSplit<'p, M>,
        under_log: &mut UnderLog<'_>,
    );

    /// Whether a removal that leaves a leaf so should look at the leaf's neighbours.
    fn is_sparse(at: &NodeAt<'_, Self>) -> bool;

    /// Whether an inner node can take in one more child without a split.
    fn takes_another<M: Medium>(at: &NodeAt<'_, Self>) -> bool;

    /// Whether two neighbours fit into one node. Reads beside writers, too.
    fn fit<M: Medium>(left: Page<'_>, right: Page<'_>, shape: Shape) -> bool;

    /// Reads all for a merge of `right` into `left`, and plans it and to give back the bound between them; none if they do
    /// not fit after all.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory.
    fn plan_merge<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<Option<Self::MergePlan>, Stop>;

    /// Makes `left` the node of both.
    fn merge<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        left: Page<'_>,
        plan: &mut Self::MergePlan,
        under_log: &mut UnderLog<'_>,
    );

    /// Whether `right` is so sparse, and its left neighbour so full, that it should get some of its entries. Reads beside
    /// writers, too.
    fn should_give(left: &NodeAt<'_, Self>, right: &NodeAt<'_, Self>) -> bool;

    /// Plans to give entries of the left one of two leaves to the right one; `None` if they should stay. All three pages
    /// are latched.
    ///
    /// # Errors
    /// NoMemory.
    fn plan_give<M: Medium>(siblings: &Siblings<'_>) -> Result<Option<Self::GivePlan>>;

    /// Gives them.
    fn give<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        siblings: &Siblings<'_>,
        plan: &mut Self::GivePlan,
    );

    /// Renews the separator of a child in its parent, where a crash came before the end of a gift: the entry at `pos`
    /// names the child and has a greater key. Says whether it did. Only on media without a journal.
    fn renew<M: Medium>(
        m: &M,
        at: &NodeAt<'_, Self>,
        pos: usize,
        child: (&Self::Key, PageNo),
    ) -> bool;

    /// Whether the last entries came in a row up to the one that asks, so that a split which leaves the node full is
    /// better than halves.
    fn is_run(at: &NodeAt<'_, Self>, asking: Asking) -> bool;

    /// Whether a neighbour may have room for some entries of a full node. Reads beside writers, too.
    fn may_take(neighbour: Page<'_>) -> bool;

    /// Plans to move entries so that the one that asks has room where it then belongs; `None` if that
    /// cannot be. All three pages are latched. `asks_left`: the full node is the left one.
    fn plan_even<M: Medium>(
        pool: &Pool<M>,
        siblings: &Siblings<'_>,
        asking: Asking,
        asks_left: bool,
        key: &Self::Key,
    ) -> Result<Option<Self::EvenPlan>>;

    /// Moves them.
    fn even<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        siblings: &Siblings<'_>,
        plan: &mut Self::EvenPlan,
    );
}

/// How pairs of byte strings come out of a leaf without memory of their own, and how one gets in whose value was written
/// before.
pub trait NodeBytes: NodeReads<Key = [u8], Value = Vec<u8>> + NodeChanges<Input = [u8]> {
    /// Copies the key of an entry of a leaf and the value into lists, which are cleared before. Says
    /// whether the value is there: one in extents is left out, and so is one that cannot be read.
    ///
    /// # Errors
    /// Corrupt, I/O errors, NoMemory: of the key.
    fn pair_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        entry: Self::Entry<'_>,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool>;

    /// Copies a whole leaf, if pairs lie in their leaf. Says whether it did. The reader validates afterwards.
    ///
    /// # Errors
    /// NoMemory.
    fn leaf_into(_: &NodeAt<'_, Self>, _: &mut LeafCopy) -> Result<bool> {
        Ok(false)
    }

    /// Finds the value of an entry of a leaf: a copy, or what others hold, too; or says what leads to it.
    ///
    /// # Errors
    /// Corrupt, I/O errors, NoMemory.
    fn value_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        entry: Self::Entry<'_>,
        value: &mut FoundValue,
    ) -> Result<StoredValue<(), LargeValue<'p, M>>>;

    /// Fills a buffer with bytes of the value of an entry of a leaf, from byte `from` of it on. Says how
    /// many that were, or what leads to them.
    ///
    /// # Errors
    /// Corrupt, I/O errors, NoMemory.
    fn part_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        entry: Self::Entry<'_>,
        from: u64,
        buf: &mut [u8],
    ) -> Result<StoredValue<usize, LargeValue<'p, M>>>;

    /// Bytes of the value of an entry of a leaf.
    ///
    /// # Errors
    /// Corrupt, I/O errors, NoMemory.
    fn value_bytes<M: Medium>(pool: &Pool<M>, shape: Shape, entry: Self::Entry<'_>) -> Result<u64>;

    /// The preparations of a put of a large pair. The put need not have the value any more: nothing of it
    /// goes into the leaf.
    fn prepared<M: Medium>(large: Large<'_, M>) -> Self::Prepared<'_, M>;
}

// The questions that a check, a first touch and a redo ask of a node.

/// An entry as a check meets it.
pub struct EntryView<'m, K: NodeReads> {
    /// Byte of the page where it is.
    pub offset: usize,
    /// A number that no other entry of the node has; `None` if the kind has no such rule.
    pub identity: Option<u64>,
    /// The entry.
    pub entry: K::Entry<'m>,
}

/// Whether a node is sound, and how it becomes so.
pub trait NodeChecks: NodeReads {
    /// The number that a pool on a file or on persistent memory remembers for these nodes.
    const HASH: u64;
    /// Whether they survive a crash only on a medium with a journal, which makes their steps whole.
    const NEEDS_JOURNAL: bool;
    /// Their name for people.
    const NAME: &'static str;

    /// The name of these nodes, which a pool remembers while it is open. Trees of one name may be in
    /// one pool.
    fn nodes() -> &'static str;

    /// Whether these nodes can be in pages of that shape.
    fn fits(geometry: Geometry) -> bool;

    /// Redoes one change of such a node.
    ///
    /// # Errors
    /// Corrupt, if the change cannot have been made to this page.
    fn redo<M: Medium>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()>;

    /// Finishes the first touch of a page, under its latch: checks a node's header, finishes what a
    /// crash left in it, builds its aid. Other pages need nothing.
    ///
    /// # Errors
    /// Corrupt, for a node that cannot be right.
    fn first_touch<M: Medium>(m: &M, page: Page<'_>) -> Result<()>;

    /// The bytes of a node's page that need not be kept on disk: with zeros there it is the same node, to
    /// redo, too. They are behind the header. The page may be damaged.
    fn gap(bytes: &[u8]) -> Range<usize> {
        everleaf_pool::zeros_at_end(bytes)
    }

    /// The flaw of the node apart from its keys, if there is one: the place in the page, and why.
    fn flaw(page: Page<'_>, shape: Shape) -> Option<(usize, String)>;

    /// The entry at a position, for a check.
    fn look<'m>(at: &NodeAt<'m, Self>, pos: usize) -> EntryView<'m, Self>;

    /// Whether an entry's words are the ones that its key asks for.
    fn entry_fits(shape: Shape, entry: Self::Entry<'_>, key: &OwnedKeyOf<Self>) -> bool;

    /// Whether a node's prefix and upper bound are the ones that its bounds ask for.
    fn bounds_fit(
        at: &NodeAt<'_, Self>,
        low: &OwnedKeyOf<Self>,
        high: Option<&OwnedKeyOf<Self>>,
    ) -> bool;

    /// The records of a node's bounds.
    fn bound_records(page: Page<'_>) -> [Option<RecordRef>; 2];
}
