//! The suite passes a map that is right, and each canary, wrong in one way, fails it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

use everleaf_crash_check::Index;
use everleaf_crash_check::conformance::Suite;
use everleaf_pmem::Result;

/// How a canary is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    KeyZeroIsReserved,
    GreatestKeyIsReserved,
    ValueZeroIsAbsent,
    SignedOrder,
    UpdateInserts,
    InsertForgetsTheOldValue,
    RemoveOfTheLastKey,
    ExcludedIsIncluded,
    BackLimitIsTakenFromTheFront,
    LimitZeroGivesOne,
    RebootLosesOne,
    LosesARareWrite,
    WritesAreNotAtomic,
    AddReplaces,
    AddsAreNotAtomic,
}

struct Map {
    map: Mutex<BTreeMap<u64, u64>>,
    wrong: Wrong,
    calls: AtomicU64,
    maker: ThreadId,
}

impl Map {
    fn new(wrong: Wrong) -> Self {
        Self { map: Mutex::default(), wrong, calls: 0.into(), maker: thread::current().id() }
    }

    fn reboot(self) -> Self {
        if self.wrong == Wrong::RebootLosesOne {
            self.map.lock().unwrap().pop_first();
        }
        self
    }

    fn all(&self, from: Bound<u64>, to: Bound<u64>) -> Vec<(u64, u64)> {
        let loose = self.wrong == Wrong::ExcludedIsIncluded;
        let inside = |key: u64| {
            (match from {
                Bound::Included(from) => key >= from,
                Bound::Excluded(from) => key > from || (loose && key == from),
                Bound::Unbounded => true,
            }) && (match to {
                Bound::Included(to) => key <= to,
                Bound::Excluded(to) => key < to,
                Bound::Unbounded => true,
            })
        };
        let map = self.map.lock().unwrap();
        let mut all: Vec<_> =
            map.iter().map(|(k, v)| (*k, *v)).filter(|&(k, _)| inside(k)).collect();
        if self.wrong == Wrong::SignedOrder {
            all.sort_by_key(|e| e.0.cast_signed());
        }
        all
    }

    fn limit(&self, limit: usize) -> usize {
        if self.wrong == Wrong::LimitZeroGivesOne { limit.max(1) } else { limit }
    }
}

impl Index for Map {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        let found = self.map.lock().unwrap().get(&key).copied();
        let hide = self.wrong == Wrong::ValueZeroIsAbsent && found == Some(0);
        Ok(found.filter(|_| !hide))
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut map = self.map.lock().unwrap();
        match self.wrong {
            Wrong::KeyZeroIsReserved if key == 0 => Ok(None),
            Wrong::GreatestKeyIsReserved if key == u64::MAX => Ok(None),
            Wrong::LosesARareWrite if calls % 1000 == 999 => Ok(map.get(&key).copied()),
            Wrong::InsertForgetsTheOldValue => {
                map.insert(key, value);
                Ok(None)
            }
            Wrong::WritesAreNotAtomic => {
                let old = map.get(&key).copied();
                drop(map);
                // Asleep between its read and its write, so that even on one busy core the other
                // writers come in between.
                if thread::current().id() != self.maker {
                    thread::sleep(Duration::from_micros(20));
                }
                self.map.lock().unwrap().insert(key, value);
                Ok(old)
            }
            _ => Ok(map.insert(key, value)),
        }
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let mut map = self.map.lock().unwrap();
        let there = map.get(&key).copied();
        if self.wrong == Wrong::AddsAreNotAtomic {
            drop(map);
            if thread::current().id() != self.maker {
                thread::sleep(Duration::from_micros(20));
            }
            map = self.map.lock().unwrap();
        }
        if there.is_none() || self.wrong == Wrong::AddReplaces {
            map.insert(key, value);
        }
        Ok(there)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let mut map = self.map.lock().unwrap();
        if self.wrong == Wrong::UpdateInserts {
            return Ok(map.insert(key, value));
        }
        Ok(map.get_mut(&key).map(|slot| std::mem::replace(slot, value)))
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        let mut map = self.map.lock().unwrap();
        if self.wrong == Wrong::RemoveOfTheLastKey && map.len() == 1 {
            return Ok(map.get(&key).copied());
        }
        Ok(map.remove(&key))
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.all(Bound::Unbounded, Bound::Unbounded).first().copied())
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.all(Bound::Unbounded, Bound::Unbounded).last().copied())
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        let mut all = self.all(from, to);
        all.truncate(self.limit(limit));
        Ok(all)
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        let mut all = self.all(from, to);
        if self.wrong == Wrong::BackLimitIsTakenFromTheFront {
            all.truncate(limit);
        }
        all.reverse();
        all.truncate(self.limit(limit));
        Ok(all)
    }
}

fn verdict(wrong: Wrong) -> std::result::Result<(), String> {
    let suite = Suite { keys: 500, ..Suite::default() };
    suite.run(|| Map::new(wrong), Map::reboot)
}

#[test]
fn a_right_map_passes() {
    verdict(Wrong::Nothing).unwrap();
}

#[test]
fn each_canary_fails() {
    for wrong in [
        Wrong::KeyZeroIsReserved,
        Wrong::GreatestKeyIsReserved,
        Wrong::ValueZeroIsAbsent,
        Wrong::SignedOrder,
        Wrong::UpdateInserts,
        Wrong::InsertForgetsTheOldValue,
        Wrong::RemoveOfTheLastKey,
        Wrong::ExcludedIsIncluded,
        Wrong::BackLimitIsTakenFromTheFront,
        Wrong::LimitZeroGivesOne,
        Wrong::RebootLosesOne,
        Wrong::LosesARareWrite,
        Wrong::WritesAreNotAtomic,
        Wrong::AddReplaces,
        Wrong::AddsAreNotAtomic,
    ] {
        let what = verdict(wrong).expect_err(&format!("{wrong:?} was not noticed"));
        println!("{wrong:?}: {what}");
    }
}
