//! Everleaf beside other stores: a matrix of ratios, a colour for each.

use maud::{Markup, html};

use super::part::{Loaded, anchor};
use crate::cell::{Cell, fits, is_ours};
use crate::compare::{is_of, varied};
use crate::experiment::Experiment;
use crate::metric;
use crate::plot::names;
use crate::summary::{Quote, ratio, rounds};

/// The system that a program would embed.
const MAIN: &str = "everleaf";

/// The folder of these experiments.
pub const FOLDER: &str = "peers/";

/// One workload in one setting: how many times better Everleaf is than each peer.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerLine {
    /// The name of the experiment.
    pub experiment: String,
    /// The title of the experiment.
    pub title: String,
    /// Which setting, system of ours and metric, where there are several.
    pub setting: String,
    /// One for each peer that was measured.
    pub ratios: Vec<Ratio>,
    /// Whether it is of byte strings and of a whole: a rate, a size, a time of one thing. These fit a screen.
    pub is_main: bool,
}

/// How many times better Everleaf is than a peer.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    /// The peer.
    pub peer: String,
    /// Over 1 where ours is better.
    pub quote: Quote,
    /// Whether the peer did as much.
    pub is_same_size: bool,
}

/// The ratio the other way around.
fn inverse(quote: Quote) -> Quote {
    Quote { median: 1.0 / quote.median, low: 1.0 / quote.high, high: 1.0 / quote.low, ..quote }
}

/// The subject of a line of the matrix: a cell of ours and a metric.
struct OurCell<'a> {
    loaded: &'a Loaded<'a>,
    cell: &'a Cell,
    metric: &'a str,
}

/// Whether two cells do the same on as many threads, whatever their sizes.
fn is_alike(a: &Cell, b: &Cell) -> bool {
    let is_size = |cell: &Cell, name: &str| {
        let value = cell.0.get(name);
        name != "threads" && value.is_none_or(|value| value.is_integer() || value.is_float())
    };
    let names = a.0.keys().chain(b.0.keys()).filter(|name| *name != "system");
    names
        .into_iter()
        .all(|name| a.get(name) == b.get(name) || (is_size(a, name) && is_size(b, name)))
}

/// Whether two cells differ in their system only.
fn is_same(a: &Cell, b: &Cell) -> bool {
    let names = a.0.keys().chain(b.0.keys()).filter(|name| *name != "system");
    names.into_iter().all(|name| a.get(name) == b.get(name))
}

impl OurCell<'_> {
    /// The cell of a peer to be compared with. One of another size will do for a peer that is never
    /// measured at a size of ours, as some are too slow for that.
    fn beside(&self, peer: &str) -> Option<(&Cell, bool)> {
        let mut own = self.loaded.cells.iter().filter(|cell| cell.system() == peer);
        if let Some(cell) = own.clone().find(|cell| is_same(cell, self.cell)) {
            return Some((cell, true));
        }
        let ours = || self.loaded.cells.iter().filter(|cell| is_ours(&cell.system()));
        if own.clone().any(|cell| ours().any(|other| is_same(cell, other))) {
            return None;
        }
        own.find(|cell| is_alike(cell, self.cell)).map(|cell| (cell, false))
    }

    fn ratio(&self, peer: &str) -> Option<Ratio> {
        let (cell, is_same_size) = self.beside(peer)?;
        let of = |cell: &Cell| rounds(&self.loaded.rows, self.metric, |row| is_of(row, cell));
        let quote = ratio(self.metric, &of(self.cell), &of(cell))?;
        let quote = if metric::more_is_better(self.metric) { quote } else { inverse(quote) };
        Some(Ratio { peer: peer.into(), quote, is_same_size })
    }
}

/// Metrics of the plots of an experiment, each with whether a cell is in one of them.
fn metrics(experiment: &Experiment) -> Vec<&str> {
    let mut metrics: Vec<&str> = Vec::new();
    for plot in &experiment.plots {
        if !metrics.contains(&&plot.metric[..]) {
            metrics.push(&plot.metric);
        }
    }
    metrics
}

/// Whether a metric is a percentile or the worst of many.
fn is_tail(metric: &str) -> bool {
    let is_one = |part: &str| {
        let digits = part.strip_prefix('p').filter(|digits| !digits.is_empty());
        part == "max" || digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
    };
    metric.split('_').any(is_one)
}

/// Whether a plot shows this metric of a cell.
fn is_drawn(experiment: &Experiment, metric: &str, cell: &Cell) -> bool {
    let mut of = experiment.plots.iter().filter(|plot| plot.metric == metric);
    of.any(|plot| fits(&plot.only, |name| cell.get(name)))
}

/// The lines of one experiment: all metrics of its plots for each cell of ours.
fn lines(loaded: &Loaded) -> Vec<PeerLine> {
    let experiment = loaded.experiment;
    let ours: Vec<Cell> =
        loaded.cells.iter().filter(|cell| is_ours(&cell.system())).cloned().collect();
    let mut peers: Vec<String> = Vec::new();
    for system in loaded.cells.iter().map(Cell::system) {
        if !is_ours(&system) && !peers.contains(&system) {
            peers.push(system);
        }
    }
    let (varied, metrics) = (varied(&ours), metrics(experiment));
    let mut lines = Vec::new();
    for metric in &metrics {
        for cell in ours.iter().filter(|cell| is_drawn(experiment, metric, cell)) {
            let shown =
                varied.iter().filter_map(|name| Some(names::labelled(name, &cell.get(name)?)));
            let mut parts: Vec<String> = shown.collect();
            if metrics.len() > 1 {
                parts.push(metric::words(metric));
            }
            let subject = OurCell { loaded, cell, metric };
            lines.push(PeerLine {
                experiment: experiment.name.clone(),
                title: experiment.title.clone(),
                setting: parts.join(", "),
                ratios: peers.iter().filter_map(|peer| subject.ratio(peer)).collect(),
                is_main: cell.system() == MAIN && !is_tail(metric),
            });
        }
    }
    lines.retain(|line| !line.ratios.is_empty());
    lines
}

/// All lines of all experiments with peers.
pub fn matrix(all: &[Loaded]) -> Vec<PeerLine> {
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
        v if v < 0.00995 => format!("{v:.4}"),
        v => format!("{v:.2}"),
    }
}

/// A ratio of a peer in its cell.
fn ratio_cell(line: &PeerLine, peer: &str) -> Markup {
    html! {
        @match line.ratios.iter().find(|ratio| ratio.peer == peer) {
            None => td class="num" { "–" },
            Some(Ratio { quote, is_same_size, .. }) =>
                td class=(format!("num h{}", heat(quote.median)))
                { (shown(quote.median)) @if !is_same_size { "*" } },
        }
    }
}

fn heat_table<'a>(lines: &[&'a PeerLine], peers: &[&'a str]) -> Markup {
    html! {
        div class="scroll" { table class="heat" {
            thead { tr { th scope="col" { "Workload" }
                @for peer in peers { th scope="col" { (names::system(peer)) } } } }
            tbody { @for line in lines { tr {
                th scope="row" {
                    a href=(format!("#{}", anchor(&line.experiment))) { (line.title) }
                    @if !line.setting.is_empty() { span class="soft" { ", " (line.setting) } }
                }
                @for peer in peers { (ratio_cell(line, peer)) }
            } } }
        } }
    }
}

/// The matrix: a table that fits a screen, and all other lines behind it. Says so if there is none.
pub fn table(lines: &[PeerLine]) -> Markup {
    let mut peers: Vec<&str> = Vec::new();
    for ratio in lines.iter().flat_map(|line| &line.ratios) {
        if !peers.contains(&&ratio.peer[..]) {
            peers.push(&ratio.peer);
        }
    }
    let is_smaller = lines.iter().flat_map(|line| &line.ratios).any(|ratio| !ratio.is_same_size);
    let (main, others): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.is_main);
    html! {
        @if lines.is_empty() {
            p class="soft" { "No workload was run with a peer beside Everleaf often enough to be quoted." }
        } @else {
            p { "How many times better Everleaf is than each peer: rates over theirs, times and sizes under "
                "theirs. Over 1 (blue) Everleaf is better, under 1 (orange) the peer. Medians of ratios within rounds."
                @if is_smaller { " * The peer was measured with other sizes, which its experiment states." } }
            @if !main.is_empty() { (heat_table(&main, &peers)) }
            @if !others.is_empty() {
                details class="screen" {
                    summary { "The u64 index, percentiles and worst times: " (others.len()) " more lines" }
                    (heat_table(&others, &peers))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Plot, Scale};
    use crate::plot::chart::tests::row;

    #[test]
    fn ratios_are_over_one_where_ours_is_better() {
        let text = include_str!("../../experiments/circ-tree/fig-7a.toml");
        let mut experiment = Experiment::parse("peers/w1", text).expect("it is one");
        let other = Plot { metric: "put_p50_ns".into(), ..experiment.plots[0].clone() };
        experiment.plots[0].metric = "put_kops".into();
        experiment.plots.push(other);
        let cell = |system: &str, keys: i64| {
            let mut table = toml::Table::new();
            table.insert("system".into(), system.into());
            table.insert("keys".into(), keys.into());
            Cell(table)
        };
        let mut cells = vec![cell("sled", 3)];
        cells.extend(["everleaf", "redb"].iter().flat_map(|s| [cell(s, 1), cell(s, 2)]));
        let mut rows = Vec::new();
        for round in 1..=2 {
            let figures = [
                ("everleaf", "2", 30.0, 50.0),
                ("redb", "2", 10.0, 25.0),
                ("sled", "3", 15.0, 50.0),
            ];
            for (system, keys, kops, ns) in figures {
                let of = [("system", system), ("keys", keys)];
                rows.push(row(&of, round, "put_kops", kops));
                rows.push(row(&of, round, "put_p50_ns", ns));
            }
        }
        rows.push(row(&[("system", "everleaf"), ("keys", "1")], 1, "put_kops", 1.0));
        rows.push(row(&[("system", "redb"), ("keys", "1")], 1, "put_kops", 1.0));
        let rounds = experiment.rounds(Scale::Smoke);
        let loaded = Loaded { experiment: &experiment, rows, cells, rounds };
        let lines = matrix(&[loaded]);
        let of = |line: &PeerLine| {
            let ratios = line.ratios.iter().map(|r| (r.quote.median, r.is_same_size));
            (line.setting.clone(), ratios.collect::<Vec<_>>())
        };
        assert_eq!(
            lines.iter().map(of).collect::<Vec<_>>(),
            [
                ("keys 2, put".to_string(), vec![(2.0, false), (3.0, true)]),
                ("keys 2, put p50".to_string(), vec![(1.0, false), (0.5, true)]),
            ],
            "one round of one key is not quoted; sled is never measured at a size of ours"
        );
        let table = table(&lines).into_string();
        assert!(table.contains(">2.0*<") && table.contains("num h-3"), "{table}");
    }

    #[test]
    fn percentiles_and_worst_times_are_no_main_figures() {
        assert!(is_tail("put_p50_ns") && is_tail("run_max_ms") && is_tail("p999_us"));
        assert!(!is_tail("put_kops") && !is_tail("pages_count") && !is_tail("size_closed_mib"));
    }

    #[test]
    fn heat_is_the_same_both_ways() {
        let heats = [0.2, 0.5, 0.7, 0.95, 1.0, 1.05, 1.2, 1.5, 2.0, 9.0].map(heat);
        assert_eq!(heats, [-4, -3, -1, 0, 0, 0, 1, 2, 3, 4]);
    }
}
