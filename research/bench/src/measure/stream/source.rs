//! Where operations come from: the workloads that BD+Tree names, and traces.

use std::collections::HashSet;
use std::hint::black_box;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use everleaf_tree::Index;

use crate::keys::key;
use crate::trace::{self, TraceStep};
use crate::workload::{OpKind, Skew, Workload};

/// The synthetic workloads (BD+Tree, Table 2): name, distribution, size of the key space.
const TABLE_2: [(&str, Skew, u64); 5] = [
    ("U1", Skew::Uniform, 1_000_000),
    ("U2", Skew::Uniform, 10_000_000),
    ("L1", Skew::Latest(0.99), 10_000_000),
    ("Z1", Skew::Zipf(1.01), 10_000_000),
    ("Z2", Skew::Zipf(1.05), 10_000_000),
];

/// The sizes of a stream, and what random choices begin with.
#[derive(Debug, Clone, Copy)]
pub struct StreamSizes {
    /// The divisor of the key spaces of Table 2.
    pub shrink: u64,
    /// Operations, divided already.
    pub operations: u64,
    /// Reads of a hundred operations; traces have their own.
    pub reads: Option<u32>,
    /// Whether no key is removed; none is in stand-ins for traces.
    pub puts_only: bool,
    /// The seed.
    pub seed: u64,
}

/// The workload of a name.
///
/// # Errors
/// There is none of that name; it has a ratio of reads although it is a trace, or has none.
pub fn workload(name: &str, sizes: StreamSizes) -> Result<Workload> {
    let StreamSizes { shrink, operations, reads, puts_only, seed } = sizes;
    if let Some((_, picks, items)) = TABLE_2.iter().find(|(own, ..)| *own == name) {
        let reads = reads.with_context(|| format!("how many operations of {name} are reads?"))?;
        let items = (items / shrink).max(1);
        return Ok(Workload { items, picks: *picks, reads, puts_only, seed });
    }
    let Some(found) = trace::stand_in(name, operations, seed) else {
        bail!("no workload is called {name:?}: U1, U2, L1, Z1, Z2, t1 to t3, t1-long to t3-long");
    };
    ensure!(reads.is_none(), "{name} has a ratio of reads of its own");
    Ok(found)
}

/// Keys that are there at first, and what is done then.
pub struct Stream {
    /// The size of the key space, or the number of distinct keys of a trace.
    pub items: u64,
    /// Keys that are there at first: each with probability 1/2 (BD+Tree §4.1.1).
    pub first: Vec<u64>,
    /// The operations.
    pub steps: Vec<TraceStep>,
}

impl Stream {
    /// Draws the operations of a workload.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn drawn(workload: &Workload, operations: u64) -> Result<Self> {
        let steps = workload.stream(operations)?;
        let steps = steps.iter().map(|op| TraceStep { key: op.key(), kind: op.kind }).collect();
        Ok(Self { items: workload.items, first: workload.prefill().collect(), steps })
    }

    /// Reads the first operations of a trace in a file.
    ///
    /// # Errors
    /// It cannot be read, or has none.
    pub fn read(path: &Path, operations: u64) -> Result<Self> {
        let lines = trace::open(path).with_context(|| format!("open {path:?}"))?;
        let steps = lines.take(operations as usize).collect::<Result<Vec<TraceStep>, _>>();
        let steps = steps.with_context(|| format!("read {path:?}"))?;
        ensure!(!steps.is_empty(), "{path:?} has no operations");
        let mut seen = HashSet::new();
        let mut first: Vec<u64> =
            steps.iter().map(|step| step.key).filter(|key| seen.insert(*key)).collect();
        first.retain(|own| key(*own) & 1 == 0);
        Ok(Self { items: seen.len() as u64, first, steps })
    }
}

/// Runs one operation.
pub fn apply(index: &dyn Index, TraceStep { key, kind }: TraceStep) -> Result<()> {
    black_box(match kind {
        OpKind::Get => index.get(key)?,
        OpKind::Put => index.insert(key, !key)?,
        OpKind::Remove => index.remove(key)?,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::OpKind;

    const SIZES: StreamSizes =
        StreamSizes { shrink: 10, operations: 1000, reads: Some(20), puts_only: false, seed: 1 };

    #[test]
    fn names_are_workloads_of_the_tables() {
        let of = |name: &str, reads| workload(name, StreamSizes { reads, ..SIZES });
        let z2 = of("Z2", Some(20)).expect("a workload");
        assert_eq!((z2.items, z2.picks, z2.reads), (1_000_000, Skew::Zipf(1.05), 20));
        let t1 = of("t1", None).expect("a trace");
        assert_eq!((t1.items / 10, t1.reads, t1.puts_only), (217, 85, true));
        assert!(of("U1", None).is_err() && of("t1", Some(20)).is_err() && of("Z3", None).is_err());
    }

    #[test]
    fn a_trace_in_a_file_begins_with_half_of_its_keys() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("trace");
        let line =
            |i: u64| format!("{i},key-{},9,8,1,{},0\n", i % 1000, ["get", "set"][i as usize % 2]);
        std::fs::write(&path, (0..5000).map(line).collect::<String>()).expect("room");
        let stream = Stream::read(&path, 4000).expect("a trace");
        assert_eq!((stream.items, stream.steps.len()), (1000, 4000));
        assert!(stream.first.len().abs_diff(500) < 60, "{}", stream.first.len());
        let keys: HashSet<u64> = stream.steps.iter().map(|step| step.key).collect();
        assert!(keys.len() == 1000 && stream.first.iter().all(|key| keys.contains(key)));
        assert_eq!(stream.steps.iter().filter(|step| step.kind == OpKind::Put).count(), 2000);
        std::fs::write(&path, "").expect("room");
        assert!(Stream::read(&path, 10).is_err());
    }
}
