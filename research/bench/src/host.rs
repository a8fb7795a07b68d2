//! Where and with what a figure was taken.

use std::fs::read_to_string;

/// Where and with what a figure was taken. Figures of different environments are never mixed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// Processor, cores, memory.
    pub host: String,
    /// Kernel and its release.
    pub kernel: String,
    /// Version of the compiler, with flags and level if they are not those of a release.
    pub rustc: String,
    /// Commit that the program was built from; with `-changed` and a hash if files were changed after it.
    pub commit: String,
}

impl Host {
    /// This machine and this program.
    pub fn here() -> Self {
        let line = |path: &str, name: &str| {
            let text = read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split_once(':').map(|(_, value)| value.trim().to_string()).unwrap_or_default()
        };
        let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
        let kib: u64 =
            line("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or_default();
        let release = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            host: format!(
                "{}, {cores} cores, {} GiB",
                line("/proc/cpuinfo", "model name"),
                (kib + (1 << 19)) >> 20
            ),
            kernel: format!("{} {}", std::env::consts::OS, release.trim()),
            rustc: env!("EVERLEAF_RUSTC").into(),
            commit: env!("EVERLEAF_COMMIT").into(),
        }
    }
}
