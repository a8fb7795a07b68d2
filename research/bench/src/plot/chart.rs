//! The part of the results that a plot shows.

use super::names;
use crate::cell::{Cell, fits};
use crate::experiment::{Claim, Form, Plot, Published};
use crate::metric;
use crate::rows::Row;
use crate::summary::{Quote, Rounds, quote, ratio, rounds};

/// The parameter for the size of what is measured.
const SIZE: &str = "keys";

/// A place on the x axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// The value of the parameter.
    pub value: String,
    /// As it is shown.
    pub label: String,
    /// The number that it is, if it is one.
    pub number: Option<f64>,
}

/// One line, or the bars of one colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// For each place what may be quoted.
    pub points: Vec<Option<Quote>>,
    /// And the two ends of what was published.
    pub published: Vec<Option<[f64; 2]>>,
}

/// The chart that is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The title above it.
    pub title: String,
    /// The parameters in which it differs from the others of the same plot; empty for one.
    pub setting: String,
    /// The label of the y axis: the quantity that is measured, with its unit.
    pub y: String,
    /// The parameter below.
    pub x: String,
    /// Its shape.
    pub form: Form,
    /// Whether the x axis is logarithmic.
    pub log_x: bool,
    /// Whether the y axis is logarithmic.
    pub log_y: bool,
    /// Whether the figures are ratios to a series, which is 1.
    pub is_ratio: bool,
    /// Where figures are.
    pub places: Vec<Tick>,
    /// The figures.
    pub lines: Vec<Series>,
    /// The meaning of the legend's stars; empty without any.
    pub note: String,
}

impl Chart {
    /// Whether nothing in it may be quoted.
    pub fn is_empty(&self) -> bool {
        self.quotes().next().is_none()
    }

    /// All that may be quoted.
    pub fn quotes(&self) -> impl Iterator<Item = Quote> {
        self.lines.iter().flat_map(|line| line.points.iter().flatten().copied())
    }

    /// All that was published, as two ends each.
    pub fn published(&self) -> impl Iterator<Item = [f64; 2]> {
        self.lines.iter().flat_map(|line| line.published.iter().flatten().copied())
    }
}

/// Values of a parameter, each once: sorted if all are numbers, else as they come.
fn values<'a>(cells: impl IntoIterator<Item = &'a Cell>, name: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for value in cells.into_iter().filter_map(|cell| cell.get(name)) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    let number = |text: &String| text.parse::<f64>();
    if found.iter().all(|value| number(value).is_ok()) {
        found.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
    }
    found
}

/// Parameters beside `x` and `series` that a place and a line leave open: each of their settings is
/// drawn apart, as figures of different settings are not one line.
fn open(plot: &Plot, cells: &[&Cell]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (i, a) in cells.iter().enumerate() {
        for b in &cells[i + 1..] {
            if a.get(&plot.x) != b.get(&plot.x) || a.get(&plot.series) != b.get(&plot.series) {
                continue;
            }
            let differ = a.0.keys().chain(b.0.keys()).filter(|name| a.get(name) != b.get(name));
            for name in differ {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
    }
    names
}

/// The figures of one place and line of a chart.
struct ChartPoint<'a> {
    plot: &'a Plot,
    rows: &'a [Row],
    setting: &'a [(String, Option<String>)],
}

impl ChartPoint<'_> {
    fn rounds(&self, x: &str, series: &str) -> Rounds {
        rounds(self.rows, &self.plot.metric, |row| {
            row.get(&self.plot.x) == Some(x)
                && row.get(&self.plot.series) == Some(series)
                && self.setting.iter().all(|(name, value)| row.get(name) == value.as_deref())
                && fits(&self.plot.only, |name| row.get(name).map(str::to_string))
        })
    }

    fn quote(&self, x: &str, series: &str) -> Option<Quote> {
        let of = self.rounds(x, series);
        match &self.plot.over {
            Some(over) => ratio(&self.plot.metric, &of, &self.rounds(x, over)),
            None => quote(&self.plot.metric, &of),
        }
    }
}

/// The two ends of what was published of a cell, in a plot of figures over those of `base`.
fn published(plot: &Plot, claims: &[Claim], cell: &Cell, base: Option<&Cell>) -> Option<[f64; 2]> {
    let is_of = |cell: &Cell, only: &toml::Table| fits(only, |name| cell.get(name));
    let mut claims = claims.iter().filter(|claim| {
        let is_same = claim.judge && claim.metric == plot.metric && claim.over_metric.is_none();
        let is_over = match (&claim.over, base) {
            (None, None) => !metric::is_timed(&claim.metric),
            (Some(over), Some(base)) => is_of(base, over),
            _ => false,
        };
        is_same && is_over && claim.published.is_some() && is_of(cell, &claim.of)
    });
    match claims.next()?.published? {
        Published::One(v) => Some([v, v]),
        Published::Range([a, b]) => Some([a.min(b), a.max(b)]),
    }
}

/// The two ends of what was published at a place of a series, among the cells of a chart.
fn published_at(
    plot: &Plot,
    claims: &[Claim],
    cells: &[&Cell],
    place: &Tick,
    series: &str,
) -> Option<[f64; 2]> {
    let at = |series: &str| {
        let is_it = |cell: &&&Cell| {
            cell.get(&plot.x).as_deref() == Some(&place.value)
                && cell.get(&plot.series).as_deref() == Some(series)
        };
        cells.iter().find(is_it).copied()
    };
    let base = match &plot.over {
        Some(over) => Some(at(over)?),
        None => None,
    };
    published(plot, claims, at(series)?, base)
}

/// The charts of results, and of what was published: one chart, or one for each setting of the parameters
/// that the plot leaves open.
pub fn charts(plot: &Plot, cells: &[Cell], rows: &[Row], claims: &[Claim]) -> Vec<Chart> {
    let has = |cell: &&Cell| cell.get(&plot.x).is_some() && cell.get(&plot.series).is_some();
    let cells: Vec<&Cell> =
        cells.iter().filter(|cell| fits(&plot.only, |name| cell.get(name))).filter(has).collect();
    let open = open(plot, &cells);
    let mut settings: Vec<Vec<(String, Option<String>)>> = Vec::new();
    for cell in &cells {
        let setting: Vec<_> = open.iter().map(|name| (name.clone(), cell.get(name))).collect();
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    settings.iter().map(|setting| chart(plot, &cells, rows, claims, setting)).collect()
}

/// The sizes at which a system and the others of a chart were measured, where it was at another one.
struct OtherSizes {
    system: String,
    own: String,
    usual: String,
}

/// Which systems were measured at another size than most of those at the same place. The first are most
/// if as many were.
fn other_sizes(plot: &Plot, cells: &[&Cell]) -> Vec<OtherSizes> {
    let mut found: Vec<OtherSizes> = Vec::new();
    if plot.x == SIZE || plot.series == SIZE {
        return found;
    }
    for place in values(cells.iter().copied(), &plot.x) {
        let at = cells.iter().filter(|cell| cell.get(&plot.x).as_ref() == Some(&place));
        let sizes: Vec<(String, String)> =
            at.filter_map(|cell| Some((cell.get(&plot.series)?, cell.get(SIZE)?))).collect();
        let count = |size: &String| sizes.iter().filter(|(_, other)| other == size).count();
        let Some((_, usual)) = sizes.iter().rev().max_by_key(|(_, size)| count(size)) else {
            continue;
        };
        for (system, own) in sizes.iter().filter(|(_, size)| size != usual) {
            found.push(OtherSizes {
                system: system.clone(),
                own: own.clone(),
                usual: usual.clone(),
            });
        }
    }
    found
}

/// The meaning of a star in the legend.
fn note(others: &[OtherSizes]) -> String {
    let each = |of: fn(&OtherSizes) -> &String| {
        let mut sizes: Vec<String> = Vec::new();
        for size in others.iter().map(|other| names::value(SIZE, of(other))) {
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
        sizes.join(" or ")
    };
    match others.is_empty() {
        true => String::new(),
        false => {
            format!("* with {} keys, the others with {}", each(|o| &o.own), each(|o| &o.usual))
        }
    }
}

/// The label of the y axis.
fn y_of(plot: &Plot) -> String {
    let unit = metric::unit(&plot.metric).unwrap_or_default();
    let words = metric::words(&plot.metric);
    match &plot.over {
        Some(over) => format!("{words} ÷ that of {}", names::labelled(&plot.series, over)),
        None if unit.is_empty() => words,
        None => format!("{words}, {unit}"),
    }
}

fn chart(
    plot: &Plot,
    cells: &[&Cell],
    rows: &[Row],
    claims: &[Claim],
    setting: &[(String, Option<String>)],
) -> Chart {
    let within = |cell: &&Cell| setting.iter().all(|(name, value)| cell.get(name) == *value);
    let cells: Vec<&Cell> = cells.iter().copied().filter(within).collect();
    let spot = ChartPoint { plot, rows, setting };
    let places: Vec<Tick> = values(cells.iter().copied(), &plot.x)
        .into_iter()
        .map(|value| Tick {
            label: names::value(&plot.x, &value),
            number: value.parse().ok(),
            value,
        })
        .collect();
    let points = |series: &String| -> Vec<Option<Quote>> {
        places.iter().map(|place| spot.quote(&place.value, series)).collect()
    };
    let drawn: Vec<_> = values(cells.iter().copied(), &plot.series)
        .into_iter()
        .map(|series| (points(&series), series))
        .filter(|(points, _)| points.iter().any(Option::is_some))
        .collect();
    let is_drawn = |cell: &&Cell| {
        drawn.iter().any(|(_, series)| cell.get(&plot.series).as_ref() == Some(series))
    };
    let drawn_cells: Vec<&Cell> = cells.iter().copied().filter(is_drawn).collect();
    let others = other_sizes(plot, &drawn_cells);
    let lines = drawn.into_iter().map(|(points, series)| {
        let star = if others.iter().any(|other| other.system == series) { "*" } else { "" };
        let at = |place| published_at(plot, claims, &cells, place, &series);
        let published = places.iter().map(at).collect();
        let name = format!("{}{star}", names::labelled(&plot.series, &series));
        Series { name, points, published }
    });
    let lines: Vec<Series> = lines.collect();
    let (log_x, log_y) = (plot.log.contains('x'), plot.log.contains('y'));
    let log_x =
        log_x && places.iter().all(|p| p.number.is_some_and(|n| n > 0.0)) && places.len() > 2;
    let marked =
        |name: String, is_log: bool| if is_log { format!("{name} (log scale)") } else { name };
    let parts = setting.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let parts = parts
        .map(|(name, value)| format!("{}: {}", names::parameter(name), names::value(name, value)));
    Chart {
        title: plot.title.clone(),
        setting: parts.collect::<Vec<_>>().join(", "),
        y: marked(y_of(plot), log_y),
        x: marked(names::parameter(&plot.x).into(), log_x),
        // A line between two points says no more than two bars, and looks as if it did.
        form: if places.len() <= 2 { Form::Bars } else { plot.form },
        log_x,
        log_y,
        is_ratio: plot.over.is_some(),
        places,
        lines,
        note: note(&others),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::host::Host;
    use crate::plot::alone;

    /// A row of a result.
    pub fn row(parameters: &[(&str, &str)], round: u32, metric: &str, value: f64) -> Row {
        let parameters = parameters.iter().map(|(n, v)| (n.to_string(), v.to_string()));
        let text = || "here".to_string();
        let host = Host { host: text(), kernel: text(), rustc: text(), commit: text() };
        Row { parameters: parameters.collect(), seed: 1, round, metric: metric.into(), value, host }
    }

    fn cells(text: &str) -> Vec<Cell> {
        text.lines().map(|line| Cell(line.parse().expect("a table"))).collect()
    }

    /// A plot of times by nodes and systems.
    pub fn of(over: Option<&str>) -> Plot {
        Plot {
            title: "T".into(),
            metric: "get_mean_ns".into(),
            x: "slots".into(),
            series: "system".into(),
            form: Form::Bars,
            log: String::new(),
            only: toml::Table::new(),
            over: over.map(Into::into),
        }
    }

    fn sample() -> (Vec<Cell>, Vec<Row>) {
        let cells = cells("x = 1").into_iter().chain(
            [("A", 128), ("B", 128), ("A", 32), ("B", 32)].map(|(system, slots)| {
                let mut table = toml::Table::new();
                table.insert("system".into(), system.into());
                table.insert("slots".into(), slots.into());
                Cell(table)
            }),
        );
        let figures = [("A", "32", 2.0), ("B", "32", 8.0), ("A", "128", 3.0), ("B", "128", 9.0)];
        let rows = figures.iter().flat_map(|(system, slots, value)| {
            (1..=3).map(move |round| {
                let parameters = [("system", *system), ("slots", *slots)];
                row(&parameters, round, "get_mean_ns", value * f64::from(round))
            })
        });
        (cells.collect(), rows.collect())
    }

    #[test]
    fn places_are_in_the_order_of_their_numbers_and_lines_are_systems() {
        let (cells, rows) = sample();
        let charts = charts(&of(None), &cells, &rows, &[]);
        assert_eq!(charts.len(), 1, "the cell without these parameters is in none");
        let labels: Vec<_> = charts[0].places.iter().map(|place| &place.label[..]).collect();
        assert_eq!(labels, ["512 B", "2 KB"]);
        let b = charts[0].lines[1].points[0].expect("three rounds");
        assert_eq!((b.median, b.low, b.high), (16.0, 8.0, 24.0));
        assert_eq!(charts[0].y, "get mean, ns");
    }

    #[test]
    fn systems_of_another_size_have_a_star() {
        let (mut cells, rows) = sample();
        cells.remove(0);
        for (i, cell) in cells.iter_mut().enumerate() {
            cell.0.insert("keys".into(), if i % 2 == 0 { 1_000_000 } else { 200_000 }.into());
        }
        let chart = |cells: &[Cell]| charts(&of(None), cells, &rows, &[]).remove(0);
        let names = |chart: &Chart| -> Vec<String> {
            chart.lines.iter().map(|line| line.name.clone()).collect()
        };
        let starred = chart(&cells);
        assert_eq!(names(&starred), ["A", "B*"]);
        let note = "* with 200\u{a0}000 keys, the others with 1\u{a0}000\u{a0}000";
        assert_eq!(starred.note, note);
        assert!(alone(&starred).contains(note));
        // A size for each node is one for each place, and the same for all systems of it.
        for (i, cell) in cells.iter_mut().enumerate() {
            cell.0.insert("keys".into(), if i < 2 { 10 } else { 20 }.into());
        }
        let alike = chart(&cells);
        assert_eq!((names(&alike), &alike.note[..]), (vec!["A".into(), "B".into()], ""));
    }

    #[test]
    fn ratios_are_those_within_rounds() {
        let (cells, rows) = sample();
        let charts = charts(&of(Some("A")), &cells, &rows, &[]);
        let b = charts[0].lines[1].points[1].expect("three rounds");
        assert_eq!((b.median, b.low, b.high), (3.0, 3.0, 3.0));
    }

    #[test]
    fn a_time_that_was_taken_once_is_not_drawn() {
        let (cells, mut rows) = sample();
        rows.retain(|row| row.round == 1);
        assert!(charts(&of(None), &cells, &rows, &[])[0].is_empty());
    }

    #[test]
    fn settings_that_a_plot_leaves_open_are_drawn_apart() {
        let (mut cells, mut rows) = sample();
        for (cell, keys) in [(0, 10), (1, 20)].iter().flat_map(|pair| [(0, pair.1)]) {
            let mut more = cells[cell + 1].clone();
            more.0.insert("keys".into(), keys.into());
            cells.push(more);
        }
        cells.remove(1);
        rows.clear();
        let charts = charts(&of(None), &cells, &rows, &[]);
        let settings: Vec<_> = charts.iter().map(|chart| &chart.setting[..]).collect();
        assert_eq!(settings, ["", "keys: 10", "keys: 20"]);
    }

    #[test]
    fn published_figures_stand_in_the_plots_of_the_same_ratio() {
        let (cells, rows) = sample();
        let claim = |text: &str| toml::from_str(&format!("what = 'w'\n{text}")).expect("a claim");
        let claims = [
            claim(
                "published = [3.0, 2.0]\nmetric = 'get_mean_ns'\nof = { system = 'B', slots = 128 }\n\
                 over = { system = 'A', slots = 128 }",
            ),
            claim("published = 7\nmetric = 'get_mean_ns'\nof = { system = 'A', slots = 32 }"),
            claim(
                "published = 9\njudge = false\nmetric = 'get_mean_ns'\nof = { system = 'B', slots = 32 }\n\
                 over = { system = 'A', slots = 32 }",
            ),
        ];
        let ratios = &charts(&of(Some("A")), &cells, &rows, &claims)[0];
        assert_eq!(ratios.lines[1].published, [None, Some([2.0, 3.0])]);
        assert_eq!(ratios.published().count(), 1, "a time of another machine, and one not judged");
        assert_eq!(charts(&of(None), &cells, &rows, &claims)[0].published().count(), 0);
    }

    #[test]
    fn lines_between_two_places_are_bars() {
        let (cells, rows) = sample();
        let plot = Plot { form: Form::Lines, log: "xy".into(), ..of(None) };
        let chart = &charts(&plot, &cells, &rows, &[])[0];
        assert_eq!((chart.form, chart.log_x, chart.log_y), (Form::Bars, false, true));
        assert!(chart.y.ends_with("(log scale)"), "{}", chart.y);
    }
}
