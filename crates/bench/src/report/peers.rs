//! Everleaf beside other stores: a matrix of ratios, a colour for each.

use maud::{Markup, html};

use super::Loaded;
use crate::compare::is_of;
use crate::experiment::Cell;
use crate::metric;
use crate::plot::names;
use crate::summary::{Quote, ratio, rounds};

/// The folder of these experiments.
pub const FOLDER: &str = "peers/";

/// One workload in one setting: how many times better Everleaf is than each peer.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The name of the experiment.
    pub experiment: String,
    /// What is done.
    pub title: String,
    /// Which setting, system of ours and metric, where there are several.
    pub setting: String,
    /// Peers with the ratio, over 1 where ours is better.
    pub ratios: Vec<(String, Quote)>,
}

/// The ratio the other way around.
fn inverse(quote: Quote) -> Quote {
    Quote { median: 1.0 / quote.median, low: 1.0 / quote.high, high: 1.0 / quote.low, ..quote }
}

/// Cells that differ in their system only, with what tells these apart from other settings.
fn settings(cells: &[Cell]) -> Vec<(Cell, Vec<String>)> {
    let mut settings: Vec<(Cell, Vec<String>)> = Vec::new();
    for cell in cells {
        let mut common = cell.clone();
        common.0.remove("system");
        match settings.iter_mut().find(|(own, _)| *own == common) {
            Some((_, systems)) => systems.push(cell.system()),
            None => settings.push((common, vec![cell.system()])),
        }
    }
    settings
}

/// The lines of one experiment: a metric of its plots, or all there are without any.
fn lines(loaded: &Loaded) -> Vec<Line> {
    let mut metrics: Vec<String> = Vec::new();
    for plot in &loaded.experiment.plots {
        if !metrics.contains(&plot.metric) {
            metrics.push(plot.metric.clone());
        }
    }
    if metrics.is_empty() {
        metrics = crate::compare::metrics(&loaded.rows);
    }
    let settings = settings(&loaded.cells);
    let varied = super::varied(&settings.iter().map(|(cell, _)| cell.clone()).collect::<Vec<_>>());
    let all = settings.iter().flat_map(|(_, systems)| systems);
    let mut own: Vec<&String> = all.filter(|system| super::is_ours(system)).collect();
    own.sort();
    own.dedup();
    let mut lines = Vec::new();
    for (common, systems) in &settings {
        for metric in &metrics {
            for ours in systems.iter().filter(|system| super::is_ours(system)) {
                let mut parts: Vec<String> = varied
                    .iter()
                    .filter_map(|name| Some(names::labelled(name, &common.get(name)?)))
                    .collect();
                if own.len() > 1 {
                    parts.push(names::system(ours).into());
                }
                if metrics.len() > 1 {
                    parts.push(metric::words(metric));
                }
                let of = |system: &str| {
                    let mut cell = common.clone();
                    cell.0.insert("system".into(), system.into());
                    rounds(&loaded.rows, metric, |row| is_of(row, &cell))
                };
                let peers = systems.iter().filter(|system| !super::is_ours(system));
                let ratios = peers.filter_map(|peer| {
                    let quote = ratio(metric, &of(ours), &of(peer))?;
                    let is_more = metric::more_is_better(metric);
                    Some((peer.clone(), if is_more { quote } else { inverse(quote) }))
                });
                lines.push(Line {
                    experiment: loaded.experiment.name.clone(),
                    title: loaded.experiment.title.clone(),
                    setting: parts.join(", "),
                    ratios: ratios.collect(),
                });
            }
        }
    }
    lines.retain(|line| !line.ratios.is_empty());
    lines
}

/// All lines of all experiments with peers.
pub fn matrix(all: &[Loaded]) -> Vec<Line> {
    let of = all.iter().filter(|loaded| loaded.experiment.name.starts_with(FOLDER));
    of.flat_map(lines).collect()
}

/// How strong the colour of a ratio is: from -4, a quarter or less, to 4, four times or more.
fn heat(ratio: f64) -> i32 {
    let strength = [1.1, 1.5, 2.0, 4.0];
    let of = |v: f64| strength.iter().filter(|least| v >= **least).count() as i32;
    if ratio >= 1.0 { of(ratio) } else { -of(1.0 / ratio) }
}

/// A ratio in a cell: three digits at most.
fn shown(v: f64) -> String {
    match v {
        v if v >= 9.95 => format!("{v:.0}"),
        v if v >= 0.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// The matrix as a table; says so if there is none.
pub fn table(lines: &[Line]) -> Markup {
    let mut peers: Vec<&str> = Vec::new();
    for (peer, _) in lines.iter().flat_map(|line| &line.ratios) {
        if !peers.contains(&&peer[..]) {
            peers.push(peer);
        }
    }
    html! {
        @if lines.is_empty() {
            p class="soft" { "No workload was run with a peer beside Everleaf often enough to be quoted." }
        } @else {
            div class="scroll" { table class="heat" {
                caption { "How many times better Everleaf is than each peer: rates over theirs, times and sizes under "
                    "theirs. Over 1 (blue) Everleaf is better, under 1 (orange) the peer. Medians of ratios within rounds." }
                thead { tr { th scope="col" { "Workload" }
                    @for peer in &peers { th scope="col" { (names::system(peer)) } } } }
                tbody { @for line in lines { tr {
                    th scope="row" {
                        a href=(format!("#{}", super::page::anchor(&line.experiment))) { (line.title) }
                        @if !line.setting.is_empty() { span class="range" { (line.setting) } }
                    }
                    @for peer in &peers {
                        @match line.ratios.iter().find(|(name, _)| name == peer) {
                            None => td class="num" { "–" },
                            Some((_, quote)) => td class=(format!("num h{}", heat(quote.median)))
                                { (shown(quote.median)) },
                        }
                    }
                } } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Scale};
    use crate::plot::tests::row;

    #[test]
    fn ratios_are_over_one_where_ours_is_better() {
        let text = include_str!("../../experiments/circ-tree/fig-7a.toml");
        let mut experiment = Experiment::parse("peers/w1", text).expect("it is one");
        experiment.plots.clear();
        let cell = |system: &str, keys: i64| {
            let mut table = toml::Table::new();
            table.insert("system".into(), system.into());
            table.insert("keys".into(), keys.into());
            Cell(table)
        };
        let cells =
            vec![cell("Everleaf", 1), cell("redb", 1), cell("Everleaf", 2), cell("redb", 2)];
        let mut rows = Vec::new();
        for round in 1..=2 {
            for (system, kops, ns) in [("Everleaf", 30.0, 50.0), ("redb", 10.0, 25.0)] {
                let of = [("system", system), ("keys", "2")];
                rows.push(row(&of, round, "put_kops", kops));
                rows.push(row(&of, round, "put_p50_ns", ns));
            }
        }
        rows.push(row(&[("system", "Everleaf"), ("keys", "1")], 1, "put_kops", 1.0));
        rows.push(row(&[("system", "redb"), ("keys", "1")], 1, "put_kops", 1.0));
        let rounds = experiment.rounds(Scale::Smoke);
        let loaded = Loaded { experiment: &experiment, rows, cells, rounds };
        let lines = matrix(&[loaded]);
        let of = |line: &Line| (line.setting.clone(), line.ratios[0].1.median);
        assert_eq!(
            lines.iter().map(of).collect::<Vec<_>>(),
            [("keys 2, put".to_string(), 3.0), ("keys 2, put p50".to_string(), 0.5)],
            "one round of one key is not quoted"
        );
        let table = table(&lines).into_string();
        assert!(table.contains("num h3") && table.contains("num h-3"), "{table}");
    }

    #[test]
    fn heat_is_the_same_both_ways() {
        let heats = [0.2, 0.5, 0.7, 0.95, 1.0, 1.05, 1.2, 1.5, 2.0, 9.0].map(heat);
        assert_eq!(heats, [-4, -3, -1, 0, 0, 0, 1, 2, 3, 4]);
    }
}
