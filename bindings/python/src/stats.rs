//! Figures as dictionaries, of which the package makes its dataclasses. Fields have the names that they have in Rust.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use store::{Counts, Stats};

macro_rules! dict {
    ($py:expr, $from:expr, $($field:ident)*) => {{
        let dict = PyDict::new($py);
        $(dict.set_item(stringify!($field), &$from.$field)?;)*
        dict
    }};
}

/// Those that the pool keeps.
pub fn of_pool<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let dict = dict!(py, stats,
        conflicts cursor_bytes dropped_trees durable_epoch epoch file_bytes free_bytes journal_bytes journal_file_bytes
        journal_written_bytes live_bytes node_bytes open_generation page_bytes snapshot_bytes snapshot_values snapshots
        snapshots_given_up transaction_bytes transactions
    );
    let memory = dict!(py, stats.memory,
        bytes evictions hits misses most_bytes value_bytes value_evictions value_misses write_backs
    );
    dict.set_item("memory", memory)?;
    dict.set_item("uuid", PyBytes::new(py, &stats.uuid))?;
    Ok(dict)
}

/// Those that a walk over all trees finds.
pub fn of_trees<'py>(py: Python<'py>, counts: &Counts) -> PyResult<Bound<'py, PyDict>> {
    let trees = PyList::empty(py);
    for tree in &counts.trees {
        trees.append(
            dict!(py, tree, depth entries fill key_bytes name nodes_by_level value_bytes),
        )?;
    }
    let pages = PyDict::new(py);
    for count in &counts.pages {
        pages.set_item(count.kind, count.pages)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("trees", trees)?;
    dict.set_item("pages", pages)?;
    Ok(dict)
}
