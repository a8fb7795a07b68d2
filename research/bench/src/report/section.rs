//! One experiment: what it is, plots, claims, medians, settings.

use maud::{Markup, html};

use super::claims;
use super::part::{JudgedExperiment, Loaded, anchor};
use super::prose::prose;
use crate::cell::Cell;
use crate::compare::{is_of, metrics, number, varied};
use crate::metric;
use crate::plot::{self, Chart, names};
use crate::rows::Row;
use crate::store;
use crate::summary::{Quote, quote, rounds};

/// Paragraphs that an empty line parts.
fn paragraphs(text: &str) -> Markup {
    html! { @for part in text.trim().split("\n\n") { p { (prose(part)) } } }
}

/// The charts of each plot, but for those without a figure.
fn charts(loaded: &Loaded) -> Vec<Vec<Chart>> {
    let of = |plot| {
        let charts = plot::charts(plot, &loaded.cells, &loaded.rows, &loaded.experiment.claims);
        charts.into_iter().filter(|chart| !chart.is_empty()).collect()
    };
    loaded.experiment.plots.iter().map(of).collect()
}

fn plots(loaded: &Loaded, charts: &[Vec<Chart>]) -> Markup {
    let name = anchor(&loaded.experiment.name);
    html! {
        @for (i, (plot, full)) in loaded.experiment.plots.iter().zip(charts).enumerate() {
            @if full.is_empty() {
                p class="soft empty" { (plot.title) ": nothing to draw. No figure was taken, or each time only once." }
            }
            @for (k, chart) in full.iter().enumerate() {
                figure {
                    figcaption { (chart.title)
                        @if !chart.setting.is_empty() { span class="range" { (chart.setting) } } }
                    (plot::inline(chart, &format!("{name}-{i}-{k}")))
                }
            }
        }
    }
}

/// A median with its range.
fn cell_of(quote: Option<Quote>) -> Markup {
    html! {
        td class="num" {
            (number(quote.map(|q| q.median)))
            @if let Some(q) = quote && q.low < q.high {
                span class="range" { (number(Some(q.low))) "…" (number(Some(q.high))) }
            }
        }
    }
}

/// A table of all medians: a line for each cell, a column for each metric.
fn medians(loaded: &Loaded) -> Markup {
    let is_there = |cell: &&Cell| loaded.rows.iter().any(|row| is_of(row, cell));
    let cells: Vec<Cell> = loaded.cells.iter().filter(is_there).cloned().collect();
    let (metrics, varied) = (metrics(&loaded.rows), varied(&cells));
    html! {
        details class="screen" {
            summary { "All medians: " (cells.len()) " settings, " (metrics.len()) " metrics" }
            div class="scroll" { table class="medians" {
                caption { "Medians over rounds, with their ranges; a dash where a time was taken once or not at all" }
                thead { tr {
                    @for name in &varied { th scope="col" { (names::parameter(name)) } }
                    @for metric in &metrics { th scope="col" data-metric=(metric) { (metric::words(metric))
                        span class="range" { (metric::unit(metric).unwrap_or_default()) } } }
                } }
                tbody { @for cell in &cells {
                    @let own: Vec<&Row> = loaded.rows.iter().filter(|row| is_of(row, cell)).collect();
                    @let most = own.iter().map(|row| row.round).max().unwrap_or(0);
                    tr data-rounds=(most) {
                        @for name in &varied {
                            th scope="row" { (cell.get(name).map_or("–".into(), |value| names::value(name, &value))) }
                        }
                        @for metric in &metrics {
                            (cell_of(quote(metric, &rounds(own.iter().copied(), metric, |_| true))))
                        }
                    }
                } }
            } }
        }
    }
}

/// Values of something over rows, each once.
fn each<T: PartialEq>(rows: &[Row], of: impl Fn(&Row) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for row in rows {
        let value = of(row);
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// The stores that were measured: version and settings, once for each way of being durable.
fn stores(loaded: &Loaded) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let kind = loaded.experiment.measure.as_str();
    for cell in loaded
        .cells
        .iter()
        .filter(|cell| cell.0.contains_key("store") || ["apart", "store"].contains(&kind))
    {
        let mode = match cell.get("mode").as_deref() {
            Some("sync-each") => store::SyncMode::SyncEach,
            _ => store::SyncMode::Buffered,
        };
        let text = match kind {
            "apart" => store::transaction_settings(&cell.system()),
            _ => store::settings(&cell.system(), mode),
        };
        if let Ok(text) = text {
            let line = (cell.system(), text);
            if !found.contains(&line) {
                found.push(line);
            }
        }
    }
    found
}

fn settings(loaded: &Loaded) -> Markup {
    let varied = varied(&loaded.cells);
    let fixed = loaded.cells.first().into_iter().flat_map(|cell| {
        let fixed = cell.0.keys().filter(|name| !varied.contains(name));
        fixed.filter_map(|name| Some((name.clone(), cell.get(name)?)))
    });
    let texts = |of: fn(&Row) -> String| each(&loaded.rows, of).join(", ");
    let rounds = each(&loaded.rows, |row| row.round).len();
    html! {
        details class="screen" {
            summary { "Settings" }
            dl class="facts" {
                @for (name, value) in fixed {
                    dt { (names::parameter(&name)) } dd { (names::value(&name, &value)) }
                }
                @for (name, text) in stores(loaded) {
                    dt { (names::system(&name)) } dd { (text) }
                }
                dt { "Measurement" } dd { code { (loaded.experiment.measure) } }
                dt { "Rounds" } dd { (rounds) @if rounds != loaded.rounds as usize { " of " (loaded.rounds) } }
                dt { "Seed" } dd { (texts(|row| row.seed.to_string())) }
                dt { "Machine" } dd { (texts(|row| row.host.host.clone())) }
                dt { "Kernel" } dd { (texts(|row| row.host.kernel.clone())) }
                dt { "Compiler" } dd { (texts(|row| row.host.rustc.clone())) }
                dt { "Commit" } dd { code { (texts(|row| row.host.commit.clone())) } }
            }
        }
    }
}

/// Lists what is not there: systems of the paper, and cells that were skipped.
fn missing(loaded: &Loaded) -> Markup {
    let skipped = loaded.skipped();
    html! {
        @if !loaded.experiment.absent.is_empty() {
            p { b { "Not in the workspace: " } (prose(&loaded.experiment.absent.join(", "))) "." }
        }
        @if !skipped.is_empty() {
            p { b { "Not measured: " }
                @for (i, (name, why)) in skipped.iter().enumerate() {
                    @if i > 0 { "; " } (names::system(name)) " (" (why) ")"
                } "." }
        }
        @if !loaded.experiment.notes.is_empty() {
            ul class="notes screen" { @for note in &loaded.experiment.notes { li { (prose(note)) } } }
        }
    }
}

/// The part of the page about one experiment.
pub fn article(part: &JudgedExperiment) -> Markup {
    let (loaded, experiment) = (part.loaded, part.loaded.experiment);
    let charts = charts(loaded);
    // One or two charts have the claims beside them; more are beside one another.
    let is_beside = charts.iter().flatten().count() <= 2;
    html! {
        article id=(anchor(&experiment.name)) class=[loaded.rows.is_empty().then_some("screen")] {
            h3 { @if let Some(number) = experiment.number() { (number) ": " } (experiment.title) }
            p class="source" { (experiment.source) span class="screen" { " · " code { (experiment.name) } } }
            @if loaded.rows.is_empty() {
                p class="soft" { "Not run at this scale." }
            } @else {
                div class="screen" { (paragraphs(&experiment.about)) }
                div class=(if is_beside { "beside" } else { "below" }) {
                    div class="plots" { (plots(loaded, &charts)) }
                    div { (claims::table(&part.judged)) (missing(loaded)) }
                }
                (medians(loaded))
                (settings(loaded))
            }
        }
    }
}
