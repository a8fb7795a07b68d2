//! How parameters are shown to a reader.

/// Systems that the papers call otherwise.
const SYSTEMS: [(&str, &str); 37] = [
    ("FastFair", "FAST+FAIR"),
    ("FastFairBinary", "FAST+FAIR, binary search"),
    ("FastFairF", "FAST+FAIR_F"),
    ("FastFairS", "FAST+FAIR_S"),
    ("FastFairWalk", "FAST+FAIR_S as printed"),
    ("FastFairLeafF", "FAST+FAIR_F, leaves alone"),
    ("FastLogging", "FAST+Logging"),
    ("CircTree", "Circ-Tree with sentinels"),
    ("CircTreeBinary", "Circ-Tree, binary search"),
    ("CircTreeF", "Circ-Tree_F"),
    ("CircTreeLs", "Circ-Tree_ls"),
    ("CircTreeSegment", "Circ-Tree (published search)"),
    ("CircTreeWalk", "Circ-Tree_S as printed"),
    ("CircTreeLeafF", "Circ-Tree_F, leaves alone"),
    ("VolatileStd", "Volatile_std"),
    ("VolatileCirc", "Volatile_circ"),
    ("BLink", "B-link, in memory"),
    ("BdTree", "BD+Tree"),
    ("FpTree", "FPTree"),
    ("FpTree56", "FPTree, leaves of 1 KB"),
    ("LbTree", "LB+Tree"),
    ("Montage", "Montage-B+Tree"),
    ("NbTree", "NBTree"),
    ("NvTree", "NV-tree"),
    ("PacTree", "PACTree"),
    ("SkipList", "SkipList"),
    ("UTree", "uTree"),
    ("WbTree", "wB+-tree"),
    ("Wort", "WORT"),
    ("everleaf", "Everleaf"),
    ("everleaf-index", "Everleaf, u64 index"),
    ("lmdb", "LMDB"),
    ("lmdb-writemap", "LMDB, WRITEMAP"),
    ("rocksdb", "RocksDB"),
    ("btreemap", "BTreeMap of byte strings"),
    ("skipmap", "crossbeam-skiplist"),
    ("scc", "scc TreeIndex"),
];

/// Whether this is a system whose paper calls it otherwise.
pub fn is_system(name: &str) -> bool {
    SYSTEMS.iter().any(|(own, _)| *own == name)
}

/// A system as its paper calls it.
pub fn system(name: &str) -> &str {
    SYSTEMS.iter().find(|(own, _)| *own == name).map_or(name, |(_, paper)| paper)
}

/// A number with its thousands apart.
fn grouped(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{a0}');
        }
        out.push(c);
    }
    if n < 0 { format!("-{out}") } else { out }
}

/// Delays behind the name of a medium: none, of a line, or of a line and a fence.
fn delays(of: &[&str]) -> String {
    match of {
        [] => String::new(),
        [line] => format!(" + {line} ns a line"),
        [line, fence, ..] => format!(" + {line} ns a line, {fence} ns a fence"),
    }
}

/// A medium in words; one that is not known keeps its name.
fn medium(name: &str) -> String {
    match name.split(':').collect::<Vec<_>>()[..] {
        ["dram"] => "memory".into(),
        ["counted"] => "counted".into(),
        ["latency", ref add @ ..] => format!("memory{}", delays(add)),
        ["dax"] => "persistent memory".into(),
        ["dax", "none"] => "no flush".into(),
        ["dax", flush, ref add @ ..] => format!("{flush}{}", delays(add)),
        ["floor", least] => format!("clflush, {least} ns a line at least"),
        ["adr"] => "ADR".into(),
        ["eadr"] => "eADR: fences only".into(),
        ["cxl"] => "CXL without GPF".into(),
        ["cxl", ref add @ ..] => format!("CXL without GPF{}", delays(add)),
        ["file"] => "file, 10 ms".into(),
        ["file", ms] => format!("file, {ms} ms"),
        _ => name.into(),
    }
}

/// A value of a parameter: a medium by what it does, a node by its bytes, a number with its thousands apart.
pub fn value(parameter: &str, value: &str) -> String {
    match (parameter, value.parse::<i64>()) {
        ("system", _) => system(value).into(),
        ("medium", _) => medium(value),
        ("slots", Ok(slots)) if slots >= 64 && slots % 64 == 0 => format!("{} KB", slots / 64),
        ("slots", Ok(slots)) => format!("{} B", slots * 16),
        (_, Ok(n)) => grouped(n),
        ("durability", _) => durability(value),
        _ => value.into(),
    }
}

/// When writes are durable: at the end of an epoch, whose length is shown, or when they return.
fn durability(value: &str) -> String {
    match (value, value.strip_prefix("epochs:")) {
        (_, Some(ms)) => format!("epochs of {ms} ms"),
        ("synced", _) => "each write synced".into(),
        _ => value.into(),
    }
}

/// The name of a parameter for readers.
pub fn parameter(name: &str) -> &str {
    match name {
        "slots" => "node",
        "cache_mib" => "MiB of cache",
        "load" => "load (% of capacity)",
        "epoch_ms" => "epoch (ms)",
        "batch" => "pairs of a batch",
        _ => name,
    }
}

/// A value that must be told apart from others without its parameter beside it.
pub fn labelled(name: &str, of: &str) -> String {
    let is_number = of.parse::<f64>().is_ok() || of == "true" || of == "false";
    let shown = value(name, of);
    if name == "cache_mib" {
        return format!("a cache of {shown} MiB");
    }
    if name == "batch" {
        return format!("batches of {shown}");
    }
    let things = ["key", "value", "page"].iter().find(|it| name == format!("{it}_bytes"));
    if let Some(thing) = things {
        return format!("{thing}s of {shown} B");
    }
    if is_number && name != "slots" { format!("{name} {shown}") } else { shown }
}

/// Folders of experiments, in the order in which they are reported.
const PAPERS: [(&str, &str); 11] = [
    ("circ-tree", "Circ-Tree: circular nodes"),
    ("fast-fair", "FAST+FAIR: failure-atomic shifts"),
    ("sentinel-array", "Sentinel Array: search in a node"),
    ("bdtree", "BD+Tree: buffered persistence"),
    ("beyond", "Beyond the papers"),
    ("ycsb", "YCSB"),
    ("peers", "Peers: other stores on the same work"),
    ("slotted", "Slotted nodes: the Db's bars"),
    ("everleaf", "Everleaf: questions of our own"),
    ("store", "The page store: space, memory and time"),
    ("errata", "Acceptance: exact counts"),
];

/// The paper that a folder of experiments is of.
pub fn paper(folder: &str) -> &str {
    PAPERS.iter().find(|(own, _)| *own == folder).map_or(folder, |(_, title)| title)
}

/// Where a folder is in the report; one that is not known is last.
pub fn place(folder: &str) -> usize {
    PAPERS.iter().position(|(own, _)| *own == folder).unwrap_or(PAPERS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_bytes_and_systems_have_their_papers_names() {
        assert_eq!(value("slots", "32"), "512 B");
        assert_eq!(value("slots", "64"), "1 KB");
        assert_eq!(value("slots", "256"), "4 KB");
        assert_eq!(value("system", "FastFair"), "FAST+FAIR");
        assert_eq!(value("system", "redb"), "redb");
        assert_eq!(value("keys", "1000000"), "1\u{a0}000\u{a0}000");
        assert_eq!(value("medium", "dax:clwb:300"), "clwb + 300 ns a line");
        assert_eq!(value("medium", "latency:0:200"), "memory + 0 ns a line, 200 ns a fence");
        assert_eq!(value("medium", "floor:900"), "clflush, 900 ns a line at least");
        assert_eq!(value("medium", "file"), "file, 10 ms");
        assert_eq!(value("medium", "dax"), "persistent memory");
        assert_eq!(value("medium", "tape:9"), "tape:9");
        assert_eq!(value("durability", "epochs:10"), "epochs of 10 ms");
        assert_eq!(value("medium", "cxl:400"), "CXL without GPF + 400 ns a line");
        assert_eq!(parameter("load"), "load (% of capacity)");
        assert_eq!(labelled("threads", "4"), "threads 4");
        assert_eq!(labelled("slots", "32"), "512 B");
        assert_eq!(labelled("value_bytes", "100"), "values of 100 B");
        assert_eq!(labelled("cache_mib", "42"), "a cache of 42 MiB");
        assert_eq!(labelled("batch", "1000"), "batches of 1\u{a0}000");
        assert_eq!(parameter("batch"), "pairs of a batch");
    }
}
