//! A persistent map of one's own under the script oracle: a log of entries, the last of a key
//! counts. Recovery cuts off an entry that was not counted by clearing it.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Unbounded};
use std::sync::Arc;
use std::time::Instant;

use everleaf_crash_check::{
    Coverage, Explorer, Failure, Index, MapWrite, Mutate, Mutation, Script, SharedMedium, Trace,
};
use everleaf_crash_check::{Recording, mutants};
use everleaf_pmem::{Counts, Error, Geometry, Medium, Page, Result, Sim};

/// Each entry is a line: count, key, value, 1 if removed. The count, last, makes it valid.
struct Log<M>(M);

const ENTRY: usize = 8;

impl<M: Medium> Log<M> {
    fn page(&self) -> Page<'_> {
        self.0.page(0).unwrap()
    }
    fn length(&self) -> usize {
        let page = self.page();
        let counts = |n: &usize| page.body(n * ENTRY).load() == *n as u64 + 1;
        (0..page.slots() / 4).find(|n| !counts(n)).unwrap_or(page.slots() / 4)
    }
    fn map(&self) -> BTreeMap<u64, u64> {
        let (page, mut map) = (self.page(), BTreeMap::new());
        for n in 0..self.length() {
            let [key, value, removed] = [1, 2, 3].map(|i| page.body(n * ENTRY + i).load());
            if removed == 1 {
                map.remove(&key)
            } else {
                map.insert(key, value)
            };
        }
        map
    }
    fn append(&self, key: u64, value: u64, removed: bool) -> Result<Option<u64>> {
        let (page, n, old) = (self.page(), self.length(), self.map().get(&key).copied());
        if n == page.slots() / 4 {
            return Err(Error::Full { bytes: 1 });
        }
        let at = n * ENTRY;
        for (i, word) in [key, value, u64::from(removed)].into_iter().enumerate() {
            self.0.store(page.body(at + 1 + i), word);
        }
        self.0.store(page.body(at), n as u64 + 1);
        self.0.flush(page, page.line_of(at));
        self.0.fence();
        Ok(old)
    }
    fn recover(&self) {
        let (page, at) = (self.page(), self.length() * ENTRY);
        let torn: Vec<usize> = (at..at + 4).filter(|&w| page.body(w).load() != 0).collect();
        for &word in &torn {
            self.0.store(page.body(word), 0);
        }
        if !torn.is_empty() {
            self.0.flush(page, page.line_of(at));
            self.0.fence();
        }
    }
}

impl<M: Medium> Index for Log<M> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Ok(self.map().get(&key).copied())
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.append(key, value, false)
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.get(key)?.map_or_else(|| self.insert(key, value), |there| Ok(Some(there)))
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        if self.get(key)?.is_some() { self.insert(key, value) } else { Ok(None) }
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        self.append(key, 0, true)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range(Unbounded, Unbounded, 1)?.first().copied())
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.range_back(Unbounded, Unbounded, 1)?.first().copied())
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        Ok(self.map().range((from, to)).map(|(k, v)| (*k, *v)).take(limit).collect())
    }
    fn range_back(&self, from: Bound<u64>, to: Bound<u64>, n: usize) -> Result<Vec<(u64, u64)>> {
        Ok(self.map().range((from, to)).rev().map(|(k, v)| (*k, *v)).take(n).collect())
    }
}

const STEPS: u64 = 60;

fn key(step: u64) -> u64 {
    step * 7 % 10
}

fn script(start: &[(u64, u64)]) -> Script {
    // Each fourth step removes what the one before it inserted.
    let steps = (0..STEPS).map(|i| match i % 4 {
        3 => MapWrite::Remove(key(i - 1)),
        _ => MapWrite::Insert(key(i), 100 + i),
    });
    Script::new(start, steps.collect())
}

fn record(fault: Option<Mutation>, pages: u32) -> std::result::Result<(Recording, Counts), String> {
    let sim = Arc::new(Sim::new(Geometry::new(256).unwrap(), pages).unwrap());
    let log = Log(Mutate::new(SharedMedium::new(&sim), fault));
    let trace = Trace::new(&sim);
    script(&[]).run(&trace, &log)?;
    Ok((trace.finish(), log.0.counts()))
}

fn explore(record: &Recording) -> std::result::Result<Coverage, Box<Failure>> {
    let script = script(&[]);
    Explorer::new().explore(
        record,
        |sim| {
            let log = Log(SharedMedium::new(sim));
            log.recover();
            Ok(log)
        },
        |log, _, crash| {
            let entries: Vec<_> = log.map().into_iter().collect();
            script.admits(crash, &entries)?;
            log.insert(3, 3).map(drop).map_err(|error| error.to_string())
        },
    )
}

#[test]
fn a_log_map_holds_what_it_has_answered() {
    for pages in [1, 64] {
        let (record, _) = record(None, pages).unwrap();
        let start = Instant::now();
        let stats = explore(&record).unwrap();
        let rate = stats.images as f64 / start.elapsed().as_secs_f64();
        println!("{pages} pages of 4 KiB: {stats}: {rate:.0} images/s");
        assert!(stats.nested > 20);
    }
}

#[test]
fn the_script_kills_mutants() {
    let (_, calls) = record(None, 1).unwrap();
    let first = Counts { stores: 40, flushes: 10, fences: 10 };
    assert!(calls.stores > first.stores);
    let report = mutants(Mutation::each(first), |fault| {
        let (record, _) = record(Some(fault), 1)?;
        explore(&record).map(drop).map_err(|failure| failure.to_string())
    });
    println!("{report}");
    // Entry n has stores 4n to 4n + 3: key, value, removed, count. A `removed` of 0 need not be
    // stored, a key of 0 neither, and the first three may come in any order, since a crash
    // between them leaves nothing that counts.
    let redundant = |fault: &Mutation| match *fault {
        Mutation::DropStore(k) if k % 4 == 2 => (k / 4) % 4 != 3,
        Mutation::DropStore(k) if k % 4 == 0 => key(k / 4) == 0,
        Mutation::DropStore(k) if k % 4 == 1 => (k / 4) % 4 == 3,
        Mutation::SwapStores(k) => k % 4 < 2 || (k % 4 == 2 && (k / 4) % 4 != 3),
        _ => false,
    };
    let missed: Vec<_> = report.survivors.iter().filter(|fault| !redundant(fault)).collect();
    assert!(missed.is_empty(), "{missed:?}");
    assert!(report.killed.iter().any(|(_, what)| what.contains("instead of")));
}

#[test]
fn the_oracle_names_what_is_missing_and_what_is_wrong() {
    let sim = Arc::new(Sim::new(Geometry::new(4).unwrap(), 1).unwrap());
    let trace = Trace::new(&sim);
    trace.op(0, || ());
    let script = Script::new(&[(1, 1), (2, 2)], vec![MapWrite::Insert(3, 3)]);
    let mut said = String::new();
    let _ = Explorer::new().check(&trace.finish(), |_, crash| {
        if crash.responded().len() == 1 {
            script.admits(crash, &[(1, 1), (2, 2), (3, 3)])?;
            said = script.admits(crash, &[(1, 1), (2, 9), (3, 3)]).unwrap_err();
        }
        Ok(())
    });
    assert!(said.contains("missing [(2, 2)], wrong [(2, 9)]"), "{said}");
}
