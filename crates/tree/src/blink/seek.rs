//! What a search looks for.

/// What a descent looks for, by keys of type `Q`.
pub enum Seek<'k, Q: ?Sized> {
    /// The leftmost node.
    Min,
    /// The rightmost node.
    Max,
    /// The node that covers the key.
    At(&'k Q),
    /// The node that covers the keys just below the key.
    Below(&'k Q),
}

impl<Q: ?Sized> Clone for Seek<'_, Q> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<Q: ?Sized> Copy for Seek<'_, Q> {}
