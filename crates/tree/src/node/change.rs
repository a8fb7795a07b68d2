//! How pairs get into leaves and out of them: one by one, piece by piece, or many in ascending order at once.

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::{Large, Pool, Step, Stop};

use crate::node::read::{NodeKeys, NodeValues};
use crate::node::restructure::{Asking, NodeEvens};
use crate::node::{Rank, Shape};

/// A leaf that its writer has latched, and the place of the key in it.
pub struct PutPoint<'m, K: NodeKeys> {
    /// The leaf.
    pub page: Page<'m>,
    /// Its shape.
    pub shape: Shape,
    /// Its header.
    pub view: K::View<'m>,
    /// Where the key is or goes.
    pub rank: Rank,
    /// The entry of the key, if it is there.
    pub found: Option<K::Entry<'m>>,
}

/// How a pair gets into a leaf. The calls come in this order: `check`, `prepare`; with the leaf latched
/// `ready_alone` and, if that is enough, `put_alone`; if not, `wants`, and with a step of the pool `plan`, `ready` and
/// `put`.
pub trait NodeWrites: NodeValues {
    /// Whether a longer value for a key that is there makes its leaf fuller.
    const VALUES_GROW: bool;
    /// A value to store.
    type Input: ?Sized;
    /// What was made for a put before its step begins: large values are written. It is given back
    /// unless the step uses it.
    type Prepared<'p, M: Medium>;
    /// What a step has reserved for a pair.
    type Plan;
    /// All that takes memory for a change of a leaf, made before the step begins: then nothing may fail.
    type Ready<'a>: Default;

    /// Checks the limits of a key and a value.
    ///
    /// # Errors
    /// KeyTooLong, ValueTooLong: each names the limit.
    fn check(key: &Self::Key, value: Option<&Self::Input>) -> Result<()>;

    /// Writes what is too large for a step, ahead of it.
    fn prepare<'p, M: Medium>(
        pool: &'p Pool<M>,
        key: &Self::Key,
        value: &Self::Input,
    ) -> Result<Self::Prepared<'p, M>>;

    /// Makes ready to put a pair, if that changes nothing but the leaf, and the leaf has room for it.
    fn ready_alone<'a, M: Medium>(
        ready: &mut Self::Ready<'a>,
        at: &PutPoint<'_, Self>,
        pair: (&'a Self::Key, &'a Self::Input),
        prepared: &Self::Prepared<'_, M>,
    ) -> bool;

    /// What the pair asks of the leaf; `None` if there is room for it.
    fn wants<M: Medium>(
        at: &PutPoint<'_, Self>,
        key: &Self::Key,
        value: &Self::Input,
        prepared: &Self::Prepared<'_, M>,
    ) -> Option<Asking>;

    /// Makes ready what goes into the leaf with a step of the pool, before that begins.
    ///
    /// # Errors
    /// NoMemory, Corrupt.
    fn ready<'a>(
        ready: &mut Self::Ready<'a>,
        at: &PutPoint<'_, Self>,
        pair: (&'a Self::Key, &'a Self::Input),
        plan: &Self::Plan,
    ) -> Result<()>;

    /// Puts a pair into its place in a leaf that has room for it, and nowhere else.
    fn put_alone<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        at: &PutPoint<'_, Self>,
        pair: (&Self::Key, &Self::Input),
        ready: &mut Self::Ready<'_>,
    );

    /// Plans what the pair needs beside the leaf, and plans to give back what the entry refers to that
    /// it replaces.
    fn plan<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        at: &PutPoint<'_, Self>,
        prepared: &'s Self::Prepared<'p, M>,
    ) -> Result<Self::Plan, Stop>;

    /// Writes what `plan` reserved, and then puts the pair into its place in the leaf.
    fn put<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        at: &PutPoint<'_, Self>,
        plan: &Self::Plan,
        pair: (&Self::Key, &Self::Input),
        prepared: &'s Self::Prepared<'p, M>,
        ready: &mut Self::Ready<'_>,
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
}

/// How a value that was written before its step began gets into a leaf.
pub trait NodeStreams: NodeWrites<Key = [u8], Input = [u8]> {
    /// What a put of a large pair has prepared. The put need not have the value any more: nothing of it
    /// goes into the leaf.
    fn prepared<M: Medium>(large: Large<'_, M>) -> Self::Prepared<'_, M>;
}

/// How many pairs get into a leaf at once.
pub trait NodeFills: NodeWrites + NodeEvens {
    /// Whether that is ever done: several changes of a leaf in one step, and pairs that fill a leaf.
    const FILLS: bool;
    /// As [`ready_alone`](NodeWrites::ready_alone), for a pair of which nothing is prepared.
    fn ready_in_leaf<'a>(
        ready: &mut Self::Ready<'a>,
        at: &PutPoint<'_, Self>,
        pair: (&'a Self::Key, &'a Self::Input),
    ) -> bool;
    /// A leaf that is filled and the one behind it, made before the step begins.
    type FillPlan;

    /// Plans to put the first of some pairs behind the entries of a leaf, so that it is full, and one more into a new
    /// leaf behind it. The keys ascend from above the leaf's last one to below its upper bound. `None` if the pairs do
    /// not fill the leaf, or cannot be put like that.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    fn plan_fill(
        view: Self::View<'_>,
        pairs: &[(&Self::Key, &Self::Input)],
    ) -> Result<Option<Self::FillPlan>>;
    /// How many pairs the plan has, the one in the new leaf among them.
    fn fill_count(plan: &Self::FillPlan) -> usize;
    /// What is between the two leaves.
    fn fill_separator(plan: &Self::FillPlan) -> &Self::Key;
    /// Stores both leaves, the new one first.
    fn fill_leaf<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        leaves: (Page<'_>, Page<'_>),
        plan: &mut Self::FillPlan,
    );
}
