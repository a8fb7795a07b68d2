//! When a full slotted leaf gives entries to a neighbour, and what the parent gets.

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::Pool;

use super::Slotted;
use crate::kind::{Asking, NodeEvens, Siblings};
use crate::node::slotted::{self, DetachedEdit, Edit, Even, Value, View};

/// An evening out: both leaves, and the parent's entry for the right one.
pub struct EvenPlan {
    even: Even,
    entry: DetachedEdit,
}

impl NodeEvens for Slotted {
    const EVENS: bool = true;
    type EvenPlan = EvenPlan;

    fn is_run(_: Page<'_>, view: View<'_>, asking: Asking) -> bool {
        view.is_appending(asking.rank.lt())
    }

    fn may_take(neighbour: Page<'_>) -> bool {
        slotted::may_take(&View::read(neighbour))
    }

    fn plan_even<M: Medium>(
        _: &Pool<M>,
        siblings: &Siblings<'_>,
        asking: Asking,
        asks_left: bool,
        key: &[u8],
    ) -> Result<Option<EvenPlan>> {
        let Siblings { left, right, parent, entry } = *siblings;
        let asking = slotted::Asking {
            in_left: asks_left,
            key,
            pos: asking.rank.lt(),
            bytes: asking.bytes,
            replaces: asking.rank.exact,
        };
        let planned = Even::plan(&View::read(left), &View::read(right), &asking)?;
        let Some(even) = planned else { return Ok(None) };
        let mut edit = Edit::default();
        if !edit.rekey(&View::read(parent), entry, even.separator(), right.no()) {
            return Ok(None);
        }
        let entry = edit.detach();
        Ok(Some(EvenPlan { even, entry }))
    }

    fn even<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        siblings: &Siblings<'_>,
        plan: &mut EvenPlan,
    ) {
        let Siblings { left, right, parent, .. } = *siblings;
        plan.even.apply(m, op, left, right);
        let (view, separator) = (View::read(parent), plan.even.separator());
        plan.entry.attach(&view, separator, Value::Child(right.no())).apply(m, op, &view);
    }
}
