//! The checker finds what it is there to find: one small log, wrong in one way at a time.
//!
//! ```text
//! page 0   header: | length | ...      body: | value | copy | value | copy | ...
//! ```

use std::sync::Arc;
use std::time::Instant;

use everleaf_crash_check::{
    Coverage, CrashPoint, Explorer, Failure, Mutate, Mutation, Persistency, Recording,
    SharedMedium, Trace, mutants,
};
use everleaf_pmem::{Counts, Geometry, Medium, Sim};

const PAGES: u32 = 2;

/// How the log is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    MissingDataFlush,
    CommitBeforeData,
    MissingFenceBetweenLines,
    MissingCommitFlush,
    MissingLastFence,
}

fn sim() -> Arc<Sim> {
    Arc::new(Sim::new(Geometry::new(16).unwrap(), PAGES).unwrap())
}

fn append<M: Medium>(m: &M, value: u64, wrong: Wrong) {
    let page = m.page(0).unwrap();
    let length = page.head(0).load();
    let at = 2 * length as usize;
    let commit = || {
        m.store(page.head(0), length + 1);
        if wrong != Wrong::MissingCommitFlush {
            m.flush(page, 0);
        }
    };
    if wrong == Wrong::CommitBeforeData {
        commit();
        m.fence();
    }
    m.store(page.body(at), value);
    m.store(page.body(at + 1), value);
    if wrong != Wrong::MissingDataFlush {
        m.flush(page, page.line_of(at));
    }
    if wrong != Wrong::MissingFenceBetweenLines {
        m.fence();
    }
    if wrong != Wrong::CommitBeforeData {
        commit();
        if wrong != Wrong::MissingLastFence {
            m.fence();
        }
    }
}

fn entries<M: Medium>(m: &M) -> Result<Vec<u64>, String> {
    let page = m.page(0).unwrap();
    let length = page.head(0).load() as usize;
    (0..length)
        .map(|i| match (page.body(2 * i).load(), page.body(2 * i + 1).load()) {
            (a, b) if a == b && a != 0 => Ok(a),
            other => Err(format!("entry {i} of {length} is torn: {other:?}")),
        })
        .collect()
}

fn record(wrong: Wrong, fault: Option<Mutation>) -> (Recording, Counts) {
    let sim = sim();
    let trace = Trace::new(&sim);
    let m = Mutate::new(SharedMedium::new(&sim), fault);
    for value in 1..=10 {
        trace.op(value, || append(&m, value, wrong));
    }
    (trace.finish(), m.counts())
}

fn check(record: &Recording, mode: Persistency) -> Result<Coverage, Box<Failure>> {
    Explorer::new().mode(mode).check(record, |sim, crash| {
        let found = entries(&**sim)?;
        let (done, begun) = (crash.responded().len(), crash.invoked().len());
        let expected: Vec<u64> = (1..=begun as u64).collect();
        let legal = found == expected[..done] || found == expected;
        if legal { Ok(()) } else { Err(format!("{found:?} after {done} appends")) }
    })
}

#[test]
fn the_right_log_passes_and_each_wrong_one_is_caught() {
    check(&record(Wrong::Nothing, None).0, Persistency::X86).unwrap();
    for (wrong, says) in [
        (Wrong::MissingDataFlush, "torn"),
        (Wrong::CommitBeforeData, "torn"),
        (Wrong::MissingFenceBetweenLines, "torn"),
        (Wrong::MissingCommitFlush, "after 1 appends"),
        (Wrong::MissingLastFence, "after 1 appends"),
    ] {
        let failure = check(&record(wrong, None).0, Persistency::X86).expect_err("must be caught");
        assert!(failure.to_string().contains(says), "{wrong:?}: {failure}");
    }
}

#[test]
fn with_caches_that_survive_only_the_order_matters() {
    for wrong in [Wrong::Nothing, Wrong::MissingDataFlush, Wrong::MissingFenceBetweenLines] {
        check(&record(wrong, None).0, Persistency::Eadr).unwrap();
    }
    check(&record(Wrong::CommitBeforeData, None).0, Persistency::Eadr).unwrap_err();
}

#[test]
fn each_dropped_flush_fence_and_store_is_caught() {
    let (_, calls) = record(Wrong::Nothing, None);
    let report = mutants(Mutation::each(calls), |fault| {
        check(&record(Wrong::Nothing, Some(fault)).0, Persistency::X86).map(drop)
    });
    println!("{report}");
    // The two words of an entry may come in either order, and a count of the data's second word
    // before the commit does not exist; all else matters.
    let within_an_entry = |fault: &Mutation| matches!(fault, Mutation::SwapStores(k) if k % 3 == 0);
    assert!(report.survivors.iter().all(within_an_entry), "{report}");
    assert_eq!(report.survivors.len(), 10);
}

#[test]
fn an_unflushed_operation_is_caught_though_its_image_was_right_before_it_answered() {
    let sim = sim();
    let trace = Trace::new(&sim);
    let page = sim.page(0).unwrap();
    trace.op(0, || {
        sim.store(page.head(0), 1);
        sim.fence(); // a crash point with the same images as the response
    });
    let failure = Explorer::new().check(&trace.finish(), |sim, crash| {
        let lost = sim.page(0).unwrap().head(0).load() == 0;
        if lost && crash.in_flight().is_empty() && !crash.responded().is_empty() {
            return Err("lost".into());
        }
        Ok(())
    });
    assert_eq!(failure.unwrap_err().responded, [0]);
}

/// A pair of counters in two lines. An operation says what it will do in the header, does it, and
/// clears the header; recovery finishes it.
fn raise<M: Medium>(m: &M, to: u64) {
    let page = m.page(1).unwrap();
    m.store(page.head(0), to);
    m.flush(page, 0);
    m.fence();
    finish(m, to, true);
}

fn finish<M: Medium>(m: &M, to: u64, fence_before_clearing: bool) {
    let page = m.page(1).unwrap();
    for word in [0, 8, 16] {
        m.store(page.body(word), to);
        m.flush(page, page.line_of(word));
    }
    if fence_before_clearing {
        m.fence();
    }
    m.store(page.head(0), 0);
    m.flush(page, 0);
    m.fence();
}

fn explore_raises(
    explorer: &Explorer,
    right_recovery: bool,
) -> (Recording, Result<Coverage, Box<Failure>>) {
    let sim = sim();
    let trace = Trace::new(&sim);
    for to in 1..=5 {
        trace.op(to, || raise(&*sim, to));
    }
    let record = trace.finish();
    let answer = explorer.explore(&record, |sim| recover(sim, right_recovery), verify);
    (record, answer)
}

fn recover(sim: &Arc<Sim>, right: bool) -> Result<(), String> {
    let to = sim.page(1).unwrap().head(0).load();
    if to != 0 {
        finish(&**sim, to, right);
    }
    Ok(())
}

fn verify((): (), sim: &Arc<Sim>, crash: &CrashPoint<'_>) -> Result<(), String> {
    let words = [0, 8, 16].map(|word| sim.page(1).unwrap().body(word).load());
    let legal = crash.responded().len() as u64..=crash.invoked().len() as u64;
    if words == [words[0]; 3] && legal.contains(&words[0]) {
        return Ok(());
    }
    Err(format!("the counters are {words:?}"))
}

#[test]
fn a_recovery_that_is_wrong_only_when_it_is_cut_short_is_caught_and_replays() {
    let (_, right) = explore_raises(&Explorer::new(), true);
    assert!(right.unwrap().nested > 50);
    explore_raises(&Explorer::new().depth(1), false).1.expect("one crash is not enough");
    let explorer = Explorer::new().depth(2);
    let (record, wrong) = explore_raises(&explorer, false);
    let failure = *wrong.expect_err("two crashes are");
    assert_eq!(failure.depth(), 2);
    assert!(failure.to_string().contains("crash 2: recovery after"), "{failure}");
    let replay = |right| {
        let run = |sim: &Arc<Sim>| recover(sim, right);
        explorer.replay(&record, &failure.crashes, run, verify)
    };
    assert_eq!(
        replay(false).unwrap_err().to_string(),
        failure.to_string().replace(&failure.stats.to_string(), &Coverage::default().to_string())
    );
}

#[test]
fn a_panic_is_a_failure_that_replays() {
    let (record, _) = record(Wrong::MissingDataFlush, None);
    let check = |(): (), sim: &Arc<Sim>, _: &CrashPoint<'_>| {
        assert!(entries(&**sim).is_ok(), "a torn log");
        Ok(())
    };
    let failure = Explorer::new().explore(&record, |_| Ok(()), check).unwrap_err();
    assert!(failure.message.contains("panic: a torn log"), "{failure}");
    let again = Explorer::new().replay(&record, &failure.crashes, |_| Ok(()), check).unwrap_err();
    assert_eq!((again.message, again.responded), (failure.message, failure.responded));
}

#[test]
fn large_crash_points_are_sampled() {
    let sim = Arc::new(Sim::new(Geometry::new(256).unwrap(), 1).unwrap());
    let trace = Trace::new(&sim);
    let page = sim.page(0).unwrap();
    for word in 0..512 {
        sim.store(page.body(word), 1);
    }
    let record = trace.finish();
    let mut full = [false; 2];
    let check = Explorer::new().samples(500).check(&record, |sim, _| {
        let set = (0..512).filter(|&word| sim.page(0).unwrap().body(word).load() == 1).count();
        full[0] |= set == 0;
        full[1] |= set == 512;
        Ok(())
    });
    let stats = check.unwrap();
    // The start of the record is a point of one image.
    assert_eq!((stats.images + stats.deduplicated, stats.exhaustive_points), (501, 1));
    assert_eq!(full, [true; 2]);
}

#[test]
fn images_per_second() {
    let sim = sim();
    let trace = Trace::new(&sim);
    let page = sim.page(0).unwrap();
    // Many images: up to 9 contents of each of four lines at one crash point.
    for round in 1..=20u64 {
        for word in [0, 8, 16, 24].into_iter().flat_map(|line| line..line + 8) {
            sim.store(page.body(word), round << 8 | word as u64);
        }
        for line in 1..=4 {
            sim.flush(page, line);
        }
        sim.fence();
    }
    let record = trace.finish();
    let start = Instant::now();
    let mut sum = 0u64;
    let stats = Explorer::new().check(&record, |sim, _| {
        let page = sim.page(0).unwrap();
        page.latch().lock().set_ready();
        sum = (0..32).fold(sum, |sum, word| sum ^ page.body(word).load());
        Ok(())
    });
    let stats = stats.unwrap();
    let rate = stats.images as f64 / start.elapsed().as_secs_f64();
    println!("{stats}: {rate:.0} images/s");
    assert!(stats.images > 100_000);

    let start = Instant::now();
    let mut stats = Coverage::default();
    for _ in 0..100 {
        stats += explore_raises(&Explorer::new(), true).1.unwrap();
    }
    let rate = stats.images as f64 / start.elapsed().as_secs_f64();
    println!("nested: {stats}: {rate:.0} images/s");
}
