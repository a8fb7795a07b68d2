//! The table of bars: what was asked for, what was measured, met or missed.
//!
//! A bar is a claim whose words begin with `bar:`. Its figure is the median over rounds, of a ratio
//! within each round where it has a peer, and that median decides. Claims without a published figure
//! stand in the same table and are not judged. The report judges more carefully: there a bar that some
//! rounds reach and some do not is within noise.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::compare::{current, number};
use crate::experiment::{Claim, Experiment, Scale, matching};
use crate::metric;
use crate::report::claims::{BAR, judge, published, sides};
use crate::rows::{self, At, Row};
use crate::summary::{Quote, quote};

/// Which bars to show.
#[derive(clap::Args)]
pub struct Args {
    /// Experiments by (parts of) their names, or `all`
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    at: At,
    /// A CSV file for the same table; `bars.csv` beside the results if not given
    #[arg(long)]
    out: Option<PathBuf>,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
struct BarLine {
    experiment: String,
    what: String,
    bar: String,
    /// The figure that is compared with the bar.
    figure: Option<Quote>,
    /// The two figures that it was made of: that of the Db, and that of its peer.
    ours: Option<f64>,
    theirs: Option<f64>,
    unit: &'static str,
    verdict: &'static str,
}

fn is_bar(claim: &Claim) -> bool {
    claim.what.starts_with(BAR)
}

fn line(experiment: &str, claim: &Claim, rows: &[Row]) -> Result<BarLine> {
    let judged = judge(claim, rows);
    let (own, over) = sides(claim, rows);
    let median = |quote: Quote| quote.median;
    let over_metric = claim.over_metric.as_ref().unwrap_or(&claim.metric);
    Ok(BarLine {
        experiment: experiment.into(),
        what: claim.what.trim_start_matches(BAR).trim().into(),
        bar: published(claim).replace('\u{a0}', " "),
        figure: judged.ours,
        ours: quote(&claim.metric, &own).map(median),
        theirs: over.and_then(|over| quote(over_metric, &over)).map(median),
        unit: metric::unit(&claim.metric)?,
        verdict: match (judged.ours, judged.score) {
            (None, _) => "no figure",
            (_, None) => "–",
            (_, Some(score)) if score >= 1.0 => "met",
            _ => "missed",
        },
    })
}

fn lines(experiments: &[&Experiment], scale: Scale, results: &Path) -> Result<Vec<BarLine>> {
    let mut lines = Vec::new();
    for experiment in experiments {
        let rows = rows::read(&rows::path(results, experiment, scale))?;
        let rows = current(rows, &experiment.cells(scale));
        let of = experiment.claims.iter();
        for claim in of.filter(|claim| is_bar(claim) || claim.published.is_none()) {
            lines.push(line(&experiment.name, claim, &rows)?);
        }
    }
    Ok(lines)
}

const HEAD: [&str; 11] = [
    "experiment",
    "row",
    "bar",
    "figure",
    "low",
    "high",
    "rounds",
    "ours",
    "theirs",
    "unit",
    "verdict",
];

impl BarLine {
    fn record(&self) -> [String; HEAD.len()] {
        let of = |part: fn(Quote) -> f64| number(self.figure.map(part));
        [
            self.experiment.clone(),
            self.what.clone(),
            self.bar.clone(),
            of(|quote| quote.median),
            of(|quote| quote.low),
            of(|quote| quote.high),
            self.figure.map_or(0, |quote| quote.rounds).to_string(),
            number(self.ours),
            number(self.theirs),
            self.unit.into(),
            self.verdict.into(),
        ]
    }
}

/// The table as Markdown, its columns aligned.
fn table(lines: &[BarLine]) -> String {
    let records: Vec<_> = lines.iter().map(BarLine::record).collect();
    let head = HEAD.map(str::to_string);
    let all = || [&head].into_iter().chain(&records);
    let width = |i: usize| all().map(|record| record[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut out = String::new();
    for (i, record) in all().enumerate() {
        let cells = record.iter().zip(&widths).map(|(text, width)| format!(" {text:<width$} |"));
        out += &format!("|{}\n", cells.collect::<String>());
        if i == 0 {
            let rules = widths.iter().map(|width| format!("{}|", "-".repeat(width + 2)));
            out += &format!("|{}\n", rules.collect::<String>());
        }
    }
    out
}

fn show(lines: &[BarLine], out: &Path) -> Result<()> {
    let mut csv = csv::Writer::from_path(out).with_context(|| format!("write {out:?}"))?;
    csv.write_record(HEAD)?;
    for line in lines {
        csv.write_record(line.record())?;
    }
    csv.flush()?;
    let count = |verdict: &str| lines.iter().filter(|line| line.verdict == verdict).count();
    println!("\n{}", table(lines));
    println!(
        "{} met, {} missed, {} without a figure; {}",
        count("met"),
        count("missed"),
        count("no figure"),
        out.display()
    );
    Ok(())
}

fn beside(results: &Path, scale: Scale) -> PathBuf {
    results.join(scale.name()).join("bars.csv")
}

/// Shows the bars of experiments that have some, after a run of all of their cells or of some.
///
/// # Errors
/// Results cannot be read, or the table not written.
pub fn after(
    experiments: &[&Experiment],
    (scale, results): (Scale, &Path),
    all: bool,
) -> Result<()> {
    let mut with: Vec<&Experiment> = experiments.to_vec();
    with.retain(|experiment| experiment.claims.iter().any(is_bar));
    let mut lines = lines(&with, scale, results)?;
    lines.retain(|line| all || line.figure.is_some());
    if lines.is_empty() {
        return Ok(());
    }
    show(&lines, &beside(results, scale))
}

/// Shows the bars of results that are there.
///
/// # Errors
/// There are none; or as [`after`].
pub fn bars(all: &[Experiment], args: &Args) -> Result<()> {
    let At { scale, results } = &args.at;
    let lines = lines(&matching(all, &args.names)?, *scale, results)?;
    ensure!(
        lines.iter().any(|line| line.figure.is_some()),
        "no results of these bars at scale {} in {results:?}",
        scale.name()
    );
    let out = args.out.clone().unwrap_or_else(|| beside(results, *scale));
    show(&lines, &out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::chart::tests::row;

    fn claim(text: &str) -> Claim {
        toml::from_str(text).expect("a claim")
    }

    #[test]
    fn the_median_of_ratios_within_rounds_decides() {
        let of = "metric = 'get_kops'\nof = { system = 'everleaf' }\nover = { system = 'lmdb' }";
        let figures = [("everleaf", [30.0, 10.0, 90.0]), ("lmdb", [10.0, 10.0, 30.0])];
        let rows: Vec<Row> = figures
            .iter()
            .flat_map(|(system, kops)| {
                let of = (1..).zip(kops);
                of.map(|(round, v)| row(&[("system", system)], round, "get_kops", *v))
            })
            .collect();
        let line_of = |text: &str| line("x/y", &claim(&format!("{text}\n{of}")), &rows);
        let verdict = |text: &str| line_of(text).expect("a line").verdict;
        assert_eq!(
            verdict("what = 'bar: W2'\npublished = 3"),
            "met",
            "one round of three is below"
        );
        assert_eq!(verdict("what = 'bar: W2'\npublished = 3.1"), "missed");
        assert_eq!(verdict("what = 'W2'"), "–");
        let found = line_of("what = 'bar: W2'\npublished = 3").expect("a line");
        assert_eq!((found.ours, found.theirs), (Some(30.0), Some(10.0)));
        assert_eq!(found.record()[1..7], ["W2", "≥ 3 ×", "3.000", "1.000", "3.000", "3"]);
        let none = line("x/y", &claim(&format!("what = 'bar: W2'\npublished = 3\n{of}")), &[]);
        assert_eq!(none.expect("a line").verdict, "no figure");
        let shown = table(&[found]);
        let widths: Vec<usize> = shown.lines().map(|line| line.chars().count()).collect();
        assert!(widths.len() == 3 && widths.iter().all(|width| *width == widths[0]), "{shown}");
    }

    #[test]
    fn a_figure_may_be_divided_by_another_metric() {
        let text = "what = 'bar: seek'\npublished = 0.8\nmetric = 'seek_kops'\n\
                    of = { system = 'everleaf' }\nover = { system = 'everleaf' }\n\
                    over_metric = 'get_kops'";
        let of = |round, metric, v| row(&[("system", "everleaf")], round, metric, v);
        let rows: Vec<Row> =
            (1..3).flat_map(|i| [of(i, "seek_kops", 9.0), of(i, "get_kops", 10.0)]).collect();
        let line = line("x/y", &claim(text), &rows).expect("a line");
        assert_eq!((line.figure.map(|q| q.median), line.verdict), (Some(0.9), "met"));
    }
}
