//! How two slotted neighbours become one.

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::{Pool, Step, Stop};

use super::{Slotted, far};
use crate::kind::{NodeMerges, UnderLog};
use crate::node::Shape;
use crate::node::slotted::{self, Merge, View};

impl NodeMerges for Slotted {
    type PreparedMerge = Merge;

    /// Not each removal asks, but the one of the last pair does: an empty leaf always goes.
    #[inline(always)]
    fn is_sparse(_: Page<'_>, view: View<'_>) -> bool {
        let count = view.count();
        slotted::is_sparse(&view) && (count < 4 || count.is_multiple_of(4))
    }

    fn load(_: Page<'_>, view: View<'_>) -> usize {
        view.used_bytes()
    }

    fn takes_another<M: Medium>(page: Page<'_>, _: Shape, view: View<'_>) -> bool {
        2 * view.used_bytes() <= slotted::room(page.geometry().page_bytes())
    }

    fn fit<M: Medium>(left: Page<'_>, right: Page<'_>, shape: Shape) -> bool {
        // An inner node with one child has to go, like an empty leaf.
        let nothing = usize::from(shape.level > 0);
        slotted::may_merge(&View::read(left), &View::read(right), nothing)
    }

    fn prepare_merge<M: Medium>(
        _: &Pool<M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<Option<Merge>> {
        let nothing = usize::from(shape.level > 0);
        Merge::plan(&View::read(left), &View::read(right), nothing)
    }

    fn release_bound<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
    ) -> Result<(), Stop> {
        let (left, right) = (View::read(left), View::read(right));
        for record in [far::record(left.high()), far::record(right.low())].into_iter().flatten() {
            step.release(record)?;
        }
        Ok(())
    }

    fn merge<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        left: Page<'_>,
        prepared: &mut Merge,
        _: &mut UnderLog<'_>,
    ) {
        prepared.apply(m, op, left);
    }
}
