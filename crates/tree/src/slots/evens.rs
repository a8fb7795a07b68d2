//! Nodes of slots are split when they are full, never evened out: the papers' trees do so.

use std::convert::Infallible;

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::Pool;

use crate::keys::Keys;
use crate::kind::{Asking, NodeEvens, Siblings};
use crate::node::{Layout, Probe, Run};

impl<L: Layout, P: Probe, K: Keys> NodeEvens for (L, P, K) {
    const EVENS: bool = false;
    type EvenPlan = Infallible;

    fn is_run(_: Page<'_>, _: Run, _: Asking) -> bool {
        false
    }
    fn may_take(_: Page<'_>) -> bool {
        false
    }
    fn plan_even<M: Medium>(
        _: &Pool<M>,
        _: &Siblings<'_>,
        _: Asking,
        _: bool,
        _: &K::Key,
    ) -> Result<Option<Infallible>> {
        Ok(None)
    }
    fn even<'m, M: Medium>(_: &'m M, _: &mut M::Op<'m>, _: &Siblings<'_>, plan: &mut Infallible) {
        match *plan {}
    }
}
