//! Pairs get into nodes of slots one by one: on media without a journal each store is a step of its own.

use std::convert::Infallible;

use everleaf_pmem::{Medium, Page, Result};

use crate::keys::Keys;
use crate::kind::NodeFills;
use crate::node::{Layout, Probe, Run};

impl<L: Layout, P: Probe, K: Keys> NodeFills for (L, P, K) {
    const FILLS: bool = false;
    type FillPlan = Infallible;

    fn plan_fill(_: Run, _: &[(&K::Key, &K::Input)]) -> Result<Option<Infallible>> {
        Ok(None)
    }
    fn fill_count(plan: &Infallible) -> usize {
        match *plan {}
    }
    fn fill_separator(plan: &Infallible) -> &K::Key {
        match *plan {}
    }
    fn fill_leaf<'m, M: Medium>(
        _: &'m M,
        _: &mut M::Op<'m>,
        _: (Page<'_>, Page<'_>),
        plan: &mut Infallible,
    ) {
        match *plan {}
    }
}
