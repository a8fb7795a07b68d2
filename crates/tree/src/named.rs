//! Trees that are chosen by their name, for tools and experiments. This is the only place that
//! matches a name to a type.

use std::sync::Arc;

use everleaf_pmem::{Error, Medium, Result};
use everleaf_pool::{CATALOG_ANCHOR, Pool};

use crate::blink::{Blink, Reading};
use crate::index::Index;
use crate::slots::{
    Binary, Circular, Fingerprint, Layout, Linear, Logged, Probe, Scan, Segment, Sentinel, Words,
};

/// A tree that was chosen by its name, and the pool that it is in.
pub struct Named<M: Medium> {
    /// The tree.
    pub index: Box<dyn Index>,
    /// Its pool, which holds nothing else.
    pub pool: Arc<Pool<M>>,
}

fn named<M: Medium, L: Layout, P: Probe>(pool: Pool<M>, reading: Reading) -> Result<Named<M>> {
    let pool = Arc::new(pool);
    let tree: Blink<M, (L, P, Words)> = Blink::open(Arc::clone(&pool), CATALOG_ANCHOR)?;
    Ok(Named { index: Box::new(tree.reading(reading)?), pool })
}

macro_rules! names {
    ($($name:literal => $layout:ty, $probe:ty;)*) => {
        /// The names of the trees of words, for tools and experiments.
        pub const NAMES: &[&str] = &[$($name),*];

        /// Makes a tree of that name in a new pool on a medium that is all zero.
        ///
        /// # Errors
        /// Unsupported for a name that is not among [`NAMES`], or a way of reading that the tree does
        /// not have; otherwise the same as for [`Blink::create`].
        pub fn create<M: Medium>(name: &str, reading: Reading, medium: M) -> Result<Named<M>> {
            match name {
                $($name => {
                    let pool = Blink::<M, ($layout, $probe, Words)>::format_pool(medium)?;
                    named::<M, $layout, $probe>(pool, reading)
                })*
                _ => Err(unknown(name)),
            }
        }

        /// Opens the tree of that name in the pool on a medium.
        ///
        /// # Errors
        /// The same as for [`create`] and [`Blink::open`].
        pub fn open<M: Medium>(name: &str, reading: Reading, medium: M) -> Result<Named<M>> {
            match name {
                $($name => {
                    let pool = Blink::<M, ($layout, $probe, Words)>::open_pool(medium)?;
                    named::<M, $layout, $probe>(pool, reading)
                })*
                _ => Err(unknown(name)),
            }
        }
    };
}

names! {
    "FastFair" => Linear, Scan;
    "FastFairBinary" => Linear, Binary;
    "FastFairF" => Linear, Fingerprint;
    "FastFairS" => Linear, Sentinel;
    "FastLogging" => Logged<Linear>, Scan;
    "CircTreeLs" => Circular, Scan;
    "CircTreeSegment" => Circular, Segment;
    "CircTreeBinary" => Circular, Binary;
    "CircTreeF" => Circular, Fingerprint;
    "CircTree" => Circular, Sentinel;
}

fn unknown(name: &str) -> Error {
    Error::Unsupported {
        what: format!("no tree is called {name:?}: there are {}", NAMES.join(", ")),
    }
}
