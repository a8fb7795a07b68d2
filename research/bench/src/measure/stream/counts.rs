//! The counts of a stream, the same in each run.

use std::ops::Bound::Unbounded;

use anyhow::{Context, Result, ensure};
use everleaf_pmem::Counts;

use super::source::{Stream, apply};
use crate::measure::kind::Figures;
use crate::system::Subject;
use crate::trace::TraceStep;
use crate::workload::OpKind;

const LINE: f64 = 64.0;
const MIB: f64 = (1 << 20) as f64;

fn counts(subject: &dyn Subject) -> Result<Counts> {
    subject.counts().context("the medium does not count")
}

/// Puts the first keys.
pub fn prefill(subject: &dyn Subject, stream: &Stream) -> Result<()> {
    for &key in &stream.first {
        apply(subject.index(), TraceStep { key, kind: OpKind::Put })?;
    }
    subject.sync()
}

/// Runs the operations; an epoch ends after each `epoch` of them, but for the last.
pub fn run(
    subject: &dyn Subject,
    stream: &Stream,
    epoch: u64,
    mut op: impl FnMut(TraceStep) -> Result<()>,
) -> Result<()> {
    let epoch = usize::try_from(epoch).unwrap_or(usize::MAX);
    for (i, part) in stream.steps.chunks(epoch).enumerate() {
        if i > 0 {
            subject.tick()?;
        }
        part.iter().try_for_each(|step| op(*step))?;
    }
    Ok(())
}

/// Lines that are written back for each write: by the operations themselves, at the ends of epochs,
/// and by the clock, whose word is a line each time; and in MiB for a million operations.
pub fn lines(subject: &dyn Subject, stream: &Stream, epoch: u64) -> Result<Figures> {
    let (before, ended) = (counts(subject)?, subject.ended());
    let nodes = u64::from(subject.pages()?.nodes);
    let mut flushing = 0;
    run(subject, stream, epoch, |step| {
        let before = counts(subject)?.flushes;
        apply(subject.index(), step)?;
        flushing += u64::from(counts(subject)?.flushes > before);
        Ok(())
    })?;
    subject.sync()?;
    let (all, now) = (counts(subject)? - before, subject.ended());
    let pages = u64::from(subject.pages()?.nodes).saturating_sub(nodes);
    let (deferred, commits) = (now.lines - ended.lines, now.commits - ended.commits);
    let writes = stream.steps.iter().filter(|step| step.kind != OpKind::Get).count().max(1) as f64;
    let each = |count: u64| count as f64 / writes;
    let traffic = all.flushes as f64 * LINE / MIB * 1e6 / stream.steps.len() as f64;
    let mut figures: Figures = vec![
        ("traffic_mib".into(), traffic),
        ("write_lines".into(), each(all.flushes)),
        ("write_fences".into(), each(all.fences)),
        ("write_stores_count".into(), each(all.stores)),
        ("write_pages_count".into(), each(pages)),
    ];
    if commits > 0 {
        figures.extend([
            ("write_at_once_lines".into(), each(all.flushes - deferred - commits)),
            ("write_deferred_lines".into(), each(deferred)),
            ("write_clock_lines".into(), each(commits)),
            ("epochs_count".into(), commits as f64),
            // Leaves are given back by a thread or a call that is not there, so that each split
            // adds a page.
            ("unsplit_flushing_count".into(), flushing.saturating_sub(pages) as f64),
        ]);
    }
    Ok(figures)
}

/// Puts of new keys, each in an epoch of its own: the lines that it writes back itself, and those
/// that the end of its epoch does. Only a split, which adds a page, has to write back at once.
pub fn plain(subject: &dyn Subject, stream: &Stream) -> Result<Figures> {
    let nodes = subject.pages()?.nodes;
    let (mut plain, mut plain_lines, mut most) = (0u64, 0, 0);
    let (mut splits, mut split_lines) = (0u64, 0);
    for &step in stream.steps.iter().filter(|step| step.kind == OpKind::Put) {
        if subject.index().get(step.key)?.is_some() {
            continue;
        }
        let (before, ended) = (counts(subject)?.flushes, subject.ended());
        apply(subject.index(), step)?;
        let at_once = counts(subject)?.flushes - before;
        subject.tick()?;
        let deferred = subject.ended().lines - ended.lines;
        if at_once > 0 {
            splits += 1;
            split_lines += at_once;
        } else {
            plain += 1;
            plain_lines += deferred;
            most = most.max(deferred);
        }
    }
    let pages = u64::from(subject.pages()?.nodes - nodes);
    let mean = |sum: u64, of: u64| sum as f64 / of.max(1) as f64;
    Ok(vec![
        ("plain_count".into(), plain as f64),
        ("unsplit_flushing_count".into(), splits.saturating_sub(pages) as f64),
        ("plain_deferred_lines".into(), mean(plain_lines, plain)),
        ("plain_deferred_most_lines".into(), most as f64),
        ("split_count".into(), splits as f64),
        ("split_at_once_lines".into(), mean(split_lines, splits)),
    ])
}

/// Memory after all operations, in all and for each key that is there.
pub fn space(subject: &dyn Subject, stream: &Stream, epoch: u64) -> Result<Figures> {
    run(subject, stream, epoch, |step| apply(subject.index(), step))?;
    let keys = subject.index().range(Unbounded, Unbounded, usize::MAX)?.len().max(1) as f64;
    let space = subject.space()?;
    let mut figures: Figures = vec![("keys_count".into(), keys)];
    for (name, bytes) in [
        ("pool", space.pool),
        ("dram", space.frames + space.inner),
        ("dram_inner", space.inner),
        ("dram_frames", space.frames),
    ] {
        figures.push((format!("{name}_mib"), bytes as f64 / MIB));
        figures.push((format!("{name}_key_bytes"), bytes as f64 / keys));
    }
    Ok(figures)
}

/// Versions in the leaves at the end of the last epoch, for each possible key; and how many the
/// paper's model has (§4.1.7): N(3/2 − ((N−1)/N)^M) of N keys, for epochs of M uniform writes of which
/// half are removals.
pub fn versions(subject: &dyn Subject, stream: &Stream, epoch: u64) -> Result<Figures> {
    run(subject, stream, epoch, |step| apply(subject.index(), step))?;
    let report = subject.report()?.context("only a tree with epochs has versions")?;
    ensure!(report.damages.is_empty(), "damages: {:?}", report.damages);
    let n = stream.items as f64;
    Ok(vec![
        ("entries_count".into(), report.entries as f64 / n),
        ("versions_count".into(), report.instances as f64 / n),
        ("model_versions_count".into(), 1.5 - (1.0 - 1.0 / n).powf(epoch as f64)),
    ])
}

#[cfg(test)]
mod tests {
    use crate::measure::stream::tests::figures;

    fn lines(system: &str, workload: &str) -> impl Fn(&str) -> f64 + use<> {
        figures(&format!(
            "what = 'lines'\nsystem = '{system}'\nmedium = 'counted'\nslots = 32\nreads = 20\n\
             workload = '{workload}'\nshrink = 500\nops = 10_000_000\nepoch_ops = 500_000"
        ))
    }

    #[test]
    fn a_write_of_the_buffered_tree_flushes_nothing_but_in_splits() {
        let of = lines("BdTree", "Z2");
        assert!(of("write_pages_count") > 0.0 && of("write_at_once_lines") > 0.0);
        assert_eq!(of("unsplit_flushing_count"), 0.0);
        assert_eq!(of("epochs_count"), 20.0);
        // Two lines at most for each write, plus what splits defer.
        let deferred = of("write_deferred_lines");
        assert!(deferred > 0.0 && deferred <= 2.0 + 9.0 * of("write_pages_count"), "{deferred}");
        let parts = ["at_once", "deferred", "clock"].map(|name| of(&format!("write_{name}_lines")));
        assert!((parts.iter().sum::<f64>() - of("write_lines")).abs() < 1e-9);
    }

    #[test]
    fn the_buffered_tree_writes_back_less_than_strict_ones() {
        let (strict, buffered) = (lines("FastFair", "U1"), lines("BdTree", "U1"));
        assert!(strict("traffic_mib") > buffered("traffic_mib"));
        // 64 bytes a line, four operations of five are writes.
        let traffic = strict("write_lines") * 64.0 * 0.8e6 / f64::from(1 << 20);
        assert!((strict("traffic_mib") / traffic - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_plain_put_defers_two_lines_at_most() {
        let of = figures(
            "what = 'plain'\nsystem = 'BdTree'\nmedium = 'counted'\nslots = 32\nreads = 0\n\
             puts_only = true\nworkload = 'U1'\nshrink = 50\nops = 1_000_000",
        );
        assert!(of("plain_count") > 5_000.0 && of("split_count") > 0.0);
        assert_eq!(of("unsplit_flushing_count"), 0.0);
        assert_eq!(of("plain_deferred_most_lines"), 2.0);
        assert!(of("split_at_once_lines") > 1.0, "a new leaf, and the old one's first line");
    }

    #[test]
    fn versions_are_as_many_as_the_model_says() {
        for epoch in [50, 100_000, 1_000_000] {
            let of = figures(&format!(
                "what = 'versions'\nsystem = 'BdTree'\nmedium = 'dram'\nslots = 32\nreads = 0\n\
                 workload = 'U1'\nshrink = 50\nops = {}\nepoch_ops = {epoch}",
                4 * epoch
            ));
            let (found, model) = (of("versions_count"), of("model_versions_count"));
            assert!((found - model).abs() < 0.015, "{epoch}: {found}, {model}");
        }
    }

    #[test]
    fn memory_is_of_the_pool_and_in_dram() {
        for system in ["BdTree", "CircTree"] {
            let of = figures(&format!(
                "what = 'space'\nsystem = '{system}'\nmedium = 'dram'\nslots = 32\nreads = 20\n\
                 workload = 'L1'\nshrink = 500\nops = 10_000_000\nepoch_ops = 1_000_000"
            ));
            assert!((9_000.0..11_000.0).contains(&of("keys_count")));
            assert!(of("pool_key_bytes") > 16.0);
            assert_eq!(of("dram_mib"), of("dram_inner_mib") + of("dram_frames_mib"));
            assert_eq!(of("dram_inner_mib") > 0.0, system == "BdTree");
        }
    }
}
