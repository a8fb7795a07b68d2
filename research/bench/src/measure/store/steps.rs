//! The steps of a cursor that stays open: a seek, and a turn.

use std::cell::RefCell;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::part::{ThreadTimes, figures};
use super::phases::Args;
use super::setting::Bench;
use crate::measure::kind::Figures;
use crate::store::KvCursor;

/// Places that are gone to between two looks at the clock.
const BLOCK: u64 = 64;

impl Bench<'_> {
    /// Seeks keys that are there, by a cursor for each thread; nothing of stores whose cursors are not
    /// measured.
    pub fn seek(&self) -> Result<Figures> {
        if self.store.cursor().is_none() {
            return Ok(Figures::new());
        }
        let ops = self.work.ops();
        let picker = self.work.picker(self.seed, ops, 1)?;
        let parts = self.spread(|thread| {
            let share = self.work.share(thread, ops);
            let cursor = RefCell::new(self.store.cursor().expect("it has one"));
            let prepare = |args: &mut Args, i| self.prepare_key(args, picker.item(i));
            ThreadTimes::of_blocks(BLOCK as usize, share, prepare, |args| {
                let mut version = Ok(u64::MAX);
                let is = cursor.borrow_mut().seek(&args.key, &mut |key, value| {
                    if key == args.key {
                        version = self.data.version(args.id, value);
                    }
                })?;
                ensure!(is && version? == 0, "a seek has found another pair");
                Ok(())
            })
        })?;
        Ok(figures("seek", &parts))
    }

    /// The time to turn round after a seek and a step: blocks of seeks with a step, and blocks of
    /// seeks with a step there and one back, in turns. By one thread; nothing of stores whose cursors
    /// are not measured.
    pub fn turn(&self) -> Result<Figures> {
        let Some(mut cursor) = self.store.cursor() else { return Ok(Figures::new()) };
        let (blocks, mut args) = (self.work.ops().div_ceil(2 * BLOCK), Args::default());
        let picker = self.work.picker(self.seed, blocks * 2 * BLOCK, 1)?;
        let (mut there, mut and_back) = (0, 0);
        for block in 0..2 * blocks {
            let mut keys = Vec::with_capacity(BLOCK as usize);
            for i in block * BLOCK..(block + 1) * BLOCK {
                self.prepare_key(&mut args, picker.item(i));
                keys.push(args.key.clone());
            }
            let turns = block % 2 == 1;
            let ns = self.round_trips(&mut *cursor, &keys, turns)?;
            *(if turns { &mut and_back } else { &mut there }) += ns;
        }
        let turns = (blocks * BLOCK) as f64;
        Ok(vec![("turn_mean_ns".into(), (and_back as f64 - there as f64) / turns)])
    }

    /// Seeks each key, goes on by one pair, and perhaps back; returns the nanoseconds.
    fn round_trips(&self, cursor: &mut dyn KvCursor, keys: &[Vec<u8>], turns: bool) -> Result<u64> {
        let (mut shown, mut bytes) = (0, 0);
        let mut each = |key: &[u8], value: &[u8]| {
            shown += 1;
            bytes += key.len() + value.len();
        };
        let start = Instant::now();
        let mut pairs = 0;
        for key in keys {
            pairs += usize::from(cursor.seek(key, &mut each)?);
            // No pair behind the last one; from there a step back gives that one.
            pairs += usize::from(cursor.next(&mut each)?);
            if turns {
                pairs += usize::from(cursor.prev(&mut each)?);
            }
        }
        let ns = start.elapsed().as_nanos() as u64;
        let is_whole = bytes == pairs * self.data.pair_bytes();
        ensure!(pairs == shown && is_whole, "a cursor has shown something else");
        let least = keys.len() * (1 + usize::from(turns));
        ensure!(pairs >= least, "a cursor has lost its place");
        Ok(ns)
    }
}
