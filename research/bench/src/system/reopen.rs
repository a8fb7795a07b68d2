//! Trees in a file that is, or stands for, persistent memory: opened as they were left, or made.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use everleaf_file::{Dax, DaxOptions};
use everleaf_pmem::BufferedOptions;
use everleaf_tree::blink::Blink;
use everleaf_tree::hybrid::Rebuild;
use everleaf_tree::named::Named;
use everleaf_tree::slots::Words;
use everleaf_tree::slots::{Circular, Layout, Linear, Probe, Scan, Sentinel};
use everleaf_tree::{INDEX_ANCHOR, Index, open_bd_dax, open_dax};

use super::strict::Strict;
use super::{BUFFERED, Bd, Subject, SystemSpec, rival};

fn strict<L: Layout, P: Probe>(path: &Path, options: &DaxOptions) -> Result<Box<dyn Subject>>
where
    Blink<Dax, (L, P, Words)>: Index,
{
    let pool = Arc::new(open_dax::<L, P>(path, options)?);
    let tree = Blink::<Dax, (L, P, Words)>::open(Arc::clone(&pool), INDEX_ANCHOR)?;
    let index: Box<dyn Index> = Box::new(tree);
    Ok(Box::new(Strict::new(Named { index, pool }, None)))
}

impl SystemSpec<'_> {
    /// Opens the tree in the file at `path`, or makes it: `CircTree`, `FastFair`, `BdTree`, or one of the rivals
    /// that [`rival::open`] knows. Epochs end by themselves. `threads` rebuild the inner nodes of `BdTree`.
    ///
    /// # Errors
    /// There is no room; what is there is not such a tree, or is damaged.
    pub fn open_at(&self, path: &Path, threads: usize) -> Result<Box<dyn Subject>> {
        let options = DaxOptions {
            slots: self.slots(),
            pages: self.pages(),
            create: true,
            emulate: self.dax.is_none(),
            ..DaxOptions::default()
        };
        let defaults = BufferedOptions::default();
        let epochs = self.epoch.map_or(defaults, |interval| BufferedOptions { interval });
        match self.name {
            "CircTree" => strict::<Circular, Sentinel>(path, &options),
            "FastFair" => strict::<Linear, Scan>(path, &options),
            BUFFERED => {
                let how = Rebuild { threads, ..Rebuild::default() };
                let (tree, _) = open_bd_dax(path, &options, &epochs, &how)?;
                Ok(Box::new(Bd { tree: Arc::new(tree), _keeper: None, _dir: None }))
            }
            other => rival::open(other, Dax::open(path, &options)?, &epochs),
        }
    }
}
