//! The bare disk: what a synced operation costs at least, and how many bytes a folder takes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use anyhow::Result;

use super::part::{ThreadTimes, figures};
use crate::clock::Times;
use crate::measure::kind::Figures;

const OVERWRITE: &str = "disk-overwrite";
const APPEND: &str = "disk-append";

/// Bytes of one write.
const BLOCK: usize = 4096;

/// Blocks that are written over, again and again.
const BLOCKS: u64 = 1024;

/// Whether a system is the bare disk.
pub fn is(system: &str) -> bool {
    [OVERWRITE, APPEND].contains(&system)
}

fn write_synced(file: &File, block: u64) -> Result<()> {
    file.write_all_at(&[7; BLOCK], block * BLOCK as u64)?;
    Ok(file.sync_data()?)
}

/// Writes blocks and syncs each: at the end of a file, or over blocks that are there.
pub fn write(system: &str, dir: &Path, operations: u64) -> Result<Figures> {
    let file =
        OpenOptions::new().create(true).truncate(true).write(true).open(dir.join("blocks"))?;
    let overwrites = system == OVERWRITE;
    if overwrites {
        file.write_all_at(&vec![1; BLOCK * BLOCKS as usize], 0)?;
        file.sync_all()?;
    }
    let mut times = Times::default();
    let place = |i| if overwrites { i % BLOCKS } else { i };
    times.of(0..operations, |i| write_synced(&file, place(i)))?;
    Ok(figures("load", &[ThreadTimes::new(times, operations)]))
}

/// Mebibytes that the files of a folder take on disk; holes are not counted.
pub fn mib(dir: &Path) -> Result<f64> {
    fn bytes(dir: &Path) -> Result<u64> {
        let mut sum = 0;
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let data = entry.metadata()?;
            sum += if data.is_dir() { bytes(&entry.path())? } else { data.blocks() * 512 };
        }
        Ok(sum)
    }
    Ok(bytes(dir)? as f64 / (1 << 20) as f64)
}
