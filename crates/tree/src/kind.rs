//! Which parts a tree is made of.

use crate::keys::{KeyOrder, Keys, ValueWrites, Values};
use crate::node::{Layout, Probe};

/// The parts that make a tree what it is, apart from its medium: how nodes keep slots, which slots a
/// search looks at, and what keys are. Any tuple of the three is a kind of tree:
///
/// ```
/// use everleaf_pmem::Dram;
/// use everleaf_tree::blink::Blink;
/// use everleaf_tree::keys::Words;
/// use everleaf_tree::node::{Circular, Sentinel};
///
/// type CircTree = Blink<Dram, (Circular, Sentinel, Words)>;
/// # let _: Option<CircTree> = None;
/// ```
pub trait Kind: Send + Sync + 'static {
    /// How a node keeps its slots.
    type Layout: Layout;
    /// Which slots a search looks at.
    type Probe: Probe;
    /// What keys and values are.
    type Keys: Keys;
}

impl<L: Layout, P: Probe, K: Keys> Kind for (L, P, K) {
    type Layout = L;
    type Probe = P;
    type Keys = K;
}

/// A key of a kind of tree, to look for.
pub type KeyOf<K> = <<K as Kind>::Keys as KeyOrder>::Key;
/// A key of a kind of tree that owns its bytes.
pub type OwnedKeyOf<K> = <<K as Kind>::Keys as KeyOrder>::Owned;
/// A value of a kind of tree, to be stored.
pub type InputOf<K> = <<K as Kind>::Keys as ValueWrites>::Input;
/// A value of a kind of tree that was found.
pub type ValueOf<K> = <<K as Kind>::Keys as Values>::Value;
