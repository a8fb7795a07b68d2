//! How many pairs fill a slotted leaf.

use everleaf_pmem::{Medium, Page, Result};

use super::Slotted;
use crate::kind::NodeFills;
use crate::node::slotted::{Fill, View};

impl NodeFills for Slotted {
    const FILLS: bool = true;
    type FillPlan = Fill;

    fn plan_fill(view: View<'_>, pairs: &[(&[u8], &[u8])]) -> Result<Option<Fill>> {
        Fill::plan(&view, pairs)
    }
    fn fill_count(plan: &Fill) -> usize {
        plan.count()
    }
    fn fill_separator(plan: &Fill) -> &[u8] {
        plan.separator()
    }
    fn fill_leaf<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        leaves: (Page<'_>, Page<'_>),
        plan: &mut Fill,
    ) {
        plan.apply(m, op, leaves);
    }
}
