//! Loads: many pairs in ascending order get into a leaf at once.

use everleaf_pmem::{Medium, Page, Result};

use super::evens::NodeEvens;
use super::writes::NodeWrites;

/// Whether and how many pairs fill a leaf in one step.
pub trait NodeFills: NodeWrites + NodeEvens {
    /// Whether that is ever done.
    const FILLS: bool;
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
