//! Layouts around layouts: what a wrapper does not do itself.

/// Within `impl Layout for …`: takes the constants and functions that are listed from another layout.
///
/// ```
/// use everleaf_pmem::{Medium, Page};
/// use everleaf_tree::node::Shape;
/// use everleaf_tree::slots::{Circular, Layout, Probe, Slot};
///
/// struct Loud;
/// impl Layout for Loud {
///     everleaf_tree::layout_as!(Circular: NAME, HASH, LOCK_FREE);
///     everleaf_tree::layout_as!(Circular: capacity, remove, absorb, trim, build, recover);
///     fn insert<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize, slot: Slot) {
///         println!("{slot:?} at {pos}");
///         Circular::insert::<M, P>(m, page, shape, pos, slot);
///     }
/// }
/// ```
#[macro_export]
macro_rules! layout_as {
    ($inner:ty: $($what:ident),*) => {
        $($crate::layout_as!(@$what $inner);)*
    };
    (@NAME $inner:ty) => {
        const NAME: &'static str = <$inner as $crate::slots::Layout>::NAME;
    };
    (@HASH $inner:ty) => {
        const HASH: u64 = <$inner as $crate::slots::Layout>::HASH;
    };
    (@LOCK_FREE $inner:ty) => {
        const LOCK_FREE: bool = <$inner as $crate::slots::Layout>::LOCK_FREE;
    };
    (@LOGGED $inner:ty) => {
        const LOGGED: bool = <$inner as $crate::slots::Layout>::LOGGED;
    };
    (@capacity $inner:ty) => {
        fn capacity<M: everleaf_pmem::Medium>(slots: usize, shape: $crate::node::Shape) -> usize {
            <$inner as $crate::slots::Layout>::capacity::<M>(slots, shape)
        }
    };
    (@insert $inner:ty) => {
        fn insert<M: everleaf_pmem::Medium, P: $crate::slots::Probe>(
            m: &M,
            page: everleaf_pmem::Page<'_>,
            shape: $crate::node::Shape,
            pos: usize,
            slot: $crate::slots::Slot,
        ) {
            <$inner as $crate::slots::Layout>::insert::<M, P>(m, page, shape, pos, slot);
        }
    };
    (@remove $inner:ty) => {
        fn remove<M: everleaf_pmem::Medium, P: $crate::slots::Probe>(
            m: &M,
            page: everleaf_pmem::Page<'_>,
            shape: $crate::node::Shape,
            pos: usize,
        ) {
            <$inner as $crate::slots::Layout>::remove::<M, P>(m, page, shape, pos);
        }
    };
    (@absorb $inner:ty) => {
        fn absorb<M: everleaf_pmem::Medium, P: $crate::slots::Probe>(
            m: &M,
            page: everleaf_pmem::Page<'_>,
            shape: $crate::node::Shape,
            slots: &[$crate::slots::Slot],
            to: $crate::node::RightBounds,
        ) {
            <$inner as $crate::slots::Layout>::absorb::<M, P>(m, page, shape, slots, to);
        }
    };
    (@take_before $inner:ty) => {
        fn take_before<M: everleaf_pmem::Medium, P: $crate::slots::Probe>(
            m: &M,
            page: everleaf_pmem::Page<'_>,
            shape: $crate::node::Shape,
            slots: &[$crate::slots::Slot],
            low: u64,
        ) {
            <$inner as $crate::slots::Layout>::take_before::<M, P>(m, page, shape, slots, low);
        }
    };
    (@trim $inner:ty) => {
        fn trim<M: everleaf_pmem::Medium, P: $crate::slots::Probe>(
            m: &M,
            page: everleaf_pmem::Page<'_>,
            shape: $crate::node::Shape,
            keep: usize,
            to: $crate::node::RightBounds,
        ) {
            <$inner as $crate::slots::Layout>::trim::<M, P>(m, page, shape, keep, to);
        }
    };
    (@build $inner:ty) => {
        fn build<M: everleaf_pmem::Medium, P: $crate::slots::Probe>(
            m: &M,
            page: everleaf_pmem::Page<'_>,
            image: &$crate::slots::SlotsImage<'_>,
        ) {
            <$inner as $crate::slots::Layout>::build::<M, P>(m, page, image);
        }
    };
    (@recover $inner:ty) => {
        fn recover<M: everleaf_pmem::Medium>(
            m: &M,
            page: everleaf_pmem::Page<'_>,
            shape: $crate::node::Shape,
        ) -> everleaf_pmem::Result<()> {
            <$inner as $crate::slots::Layout>::recover(m, page, shape)
        }
    };
}
