//! Charts as SVG. Colours are variables of `plot.css`, so that a chart follows the theme of the page
//! that it is in; series differ in hatches, markers and dashes, too.
//!
//! A chart is 400 units wide: on a phone a unit is about a pixel, and text of 11 is legible.

use maud::{Markup, PreEscaped, html};

use super::axis::{Axis, short};
use super::chart::{Chart, Series};
use crate::experiment::Form;
use crate::summary::Quote;

/// The colours and fonts of charts.
pub const STYLE: &str = include_str!("plot.css");

const WIDTH: f64 = 400.0;
/// Height of what figures are drawn in.
const HEIGHT: f64 = 190.0;
/// About the width of a character of 12 units.
const CHAR: f64 = 6.6;
const COLOURS: usize = 8;
/// Series that look different, of a plot with as many: those beyond the colours are hollow, with a
/// colour's hatch, marker and dashes of another one.
const STYLES: usize = 12;
/// So few bars have their figures above them.
const MAX_NAMED_BARS: usize = 14;

fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * CHAR * size / 12.0
}

/// A coordinate: a tenth of a unit is enough.
fn n(v: f64) -> String {
    let text = format!("{v:.1}");
    text.strip_suffix(".0").map(str::to_string).unwrap_or(text)
}

/// Where things are.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    y: Axis,
    /// Places are at numbers; else they are evenly spaced.
    x: Option<Axis>,
    slanted: bool,
}

impl Frame {
    fn of(chart: &Chart, top: f64) -> Self {
        let ends = chart.quotes().flat_map(|q| [q.low, q.high]);
        let ends = ends.chain(chart.published().flatten());
        let one = chart.is_ratio.then_some(1.0);
        let y = Axis::from_zero(ends.chain(one), chart.log_y);
        let ticks = y.ticks();
        let label = ticks.iter().map(|tick| width(&short(*tick), 11.0)).fold(0.0, f64::max);
        let numbers: Option<Vec<f64>> = chart.places.iter().map(|place| place.number).collect();
        let x = numbers.filter(|numbers| chart.form == Form::Lines && numbers.len() > 1);
        let x = x.map(|numbers| Axis::between(numbers[0], numbers[numbers.len() - 1], chart.log_x));
        let (left, right) = (label + 9.0, WIDTH - 6.0);
        let room = (right - left) / chart.places.len().max(1) as f64;
        let widest = chart.places.iter().map(|p| width(&p.label, 11.0)).fold(0.0, f64::max);
        Self { left, right, top, y, slanted: x.is_none() && widest > room - 3.0, x }
    }

    fn bottom(&self) -> f64 {
        self.top + HEIGHT
    }

    fn y(&self, v: f64) -> f64 {
        self.bottom() - self.y.at(v) * HEIGHT
    }

    /// The width of a place.
    fn room(&self, chart: &Chart) -> f64 {
        (self.right - self.left) / chart.places.len().max(1) as f64
    }

    fn x(&self, chart: &Chart, i: usize) -> f64 {
        match (&self.x, chart.places[i].number) {
            (Some(axis), Some(number)) => self.left + axis.at(number) * (self.right - self.left),
            _ => self.left + (i as f64 + 0.5) * self.room(chart),
        }
    }

    /// How far labels of places reach below the axis.
    fn below(&self, chart: &Chart) -> f64 {
        let widest = chart.places.iter().map(|p| width(&p.label, 11.0)).fold(0.0, f64::max);
        if self.slanted { 12.0 + widest * 0.6 } else { 18.0 }
    }
}

fn grid(chart: &Chart, frame: &Frame) -> Markup {
    html! {
        @for tick in frame.y.ticks() {
            @let y = n(frame.y(tick));
            line class="grid" x1=(n(frame.left)) x2=(n(frame.right)) y1=(y) y2=(y) {}
            text class="soft" font-size="11" text-anchor="end"
                x=(n(frame.left - 5.0)) y=(n(frame.y(tick) + 4.0)) { (short(tick)) }
        }
        @if chart.is_ratio {
            @let y = n(frame.y(1.0));
            line class="one" x1=(n(frame.left)) x2=(n(frame.right)) y1=(y) y2=(y) {}
        }
        @let y = n(frame.bottom());
        line class="axis" x1=(n(frame.left)) x2=(n(frame.right)) y1=(y) y2=(y) {}
        (labels(chart, frame))
    }
}

/// The labels of places; those that would touch the one before are left out.
fn labels(chart: &Chart, frame: &Frame) -> Markup {
    let mut free = f64::NEG_INFINITY;
    html! {
        @for (i, place) in chart.places.iter().enumerate() {
            @let (x, y) = (frame.x(chart, i), frame.bottom());
            @let half = if frame.slanted { 6.0 } else { width(&place.label, 11.0) / 2.0 };
            @if frame.x.is_some() {
                line class="axis" x1=(n(x)) x2=(n(x)) y1=(n(y)) y2=(n(y + 3.0)) {}
            }
            @if x - half >= free {
                @if frame.slanted {
                    text font-size="11" text-anchor="end"
                        transform=(format!("translate({} {}) rotate(-38)", n(x + 4.0), n(y + 12.0)))
                        { (place.label) }
                } @else {
                    text font-size="11" text-anchor="middle"
                        x=(n(x.min(WIDTH - half - 1.0))) y=(n(y + 15.0)) { (place.label) }
                }
                ({ free = x + half + 4.0; "" })
            }
        }
    }
}

/// The class of a series: its colour, and whether it is hollow.
fn class(series: usize) -> String {
    let style = series % STYLES;
    format!("c{}{}", style % COLOURS, if style >= COLOURS { " hollow" } else { "" })
}

/// The hatch of a series, as tiles of 6 units: light on its colour, or, if it is hollow, in its colour.
fn hatch(series: usize) -> Option<Markup> {
    let path = match series % STYLES {
        0 | 11 => return None,
        1 | 8 => "M-1 7L7 -1M-1 1L1 -1M5 7L7 5",
        2 => "M0 3H6",
        3 | 10 => "M-1 -1L7 7M5 -1L7 1M-1 5L1 7",
        4 | 9 => {
            return Some(html! { circle class="dot" cx="3" cy="3" r="1.2" {} });
        }
        5 => "M3 0V6",
        6 => "M0 3H6M3 0V6",
        _ => "M-1 7L7 -1M-1 -1L7 7",
    };
    Some(html! { path class="hatch" d=(path) {} })
}

fn patterns(chart: &Chart, id: &str) -> Markup {
    html! {
        defs {
            @for series in 0..chart.lines.len().min(STYLES) {
                pattern id=(format!("{id}-p{series}")) class=(class(series))
                    width="6" height="6" patternUnits="userSpaceOnUse" {
                    rect class="fill" width="6" height="6" {}
                    @if let Some(hatch) = hatch(series) { (hatch) }
                }
            }
        }
    }
}

fn whisker(x: f64, quote: Quote, frame: &Frame, class: &str, half: f64) -> Markup {
    let (low, high) = (frame.y(quote.low), frame.y(quote.high));
    html! {
        @if (low - high).abs() > 0.5 {
            path class=(class) d=(format!(
                "M{} {}V{}M{} {low}h{wide}M{} {high}h{wide}",
                n(x), n(low), n(high), n(x - half), n(x - half),
                low = n(low), high = n(high), wide = n(half * 2.0)
            )) {}
        }
    }
}

/// The mark of a published figure: a bar across, or a bracket between two ends.
fn published(x: f64, half: f64, ends: [f64; 2], frame: &Frame) -> Markup {
    let [low, high] = ends.map(|v| n(frame.y(v)));
    let (left, right) = (n(x - half), n(x + half));
    html! {
        @if low == high {
            path class="pub" d=(format!("M{left} {low}H{right}")) {}
        } @else {
            path class="pub" d=(format!("M{left} {low}H{right}M{left} {high}H{right}M{x} {low}V{high}", x = n(x))) {}
        }
    }
}

fn bars(chart: &Chart, frame: &Frame, id: &str) -> Markup {
    let count = chart.lines.len().max(1) as f64;
    let wide = (frame.room(chart) * 0.84 / count).min(46.0);
    let all = chart.quotes().count();
    html! {
        @for (series, line) in chart.lines.iter().enumerate() {
            @let style = series % STYLES;
            g class=(class(series)) {
                @for (i, quote) in line.points.iter().enumerate() {
                    @if let Some(quote) = quote {
                        @let middle = frame.x(chart, i) + (series as f64 - count / 2.0 + 0.5) * wide;
                        @let top = frame.y(quote.median);
                        rect class="bar" fill=(format!("url(#{id}-p{style})"))
                            x=(n(middle - wide * 0.45)) y=(n(top)) width=(n(wide * 0.9))
                            height=(n((frame.bottom() - top).max(0.1))) {}
                        (whisker(middle, *quote, frame, "err", (wide * 0.25).min(5.0)))
                        @if all <= MAX_NAMED_BARS {
                            text class="small" text-anchor="middle" x=(n(middle))
                                y=(n(frame.y(quote.high) - 3.0)) { (figure(quote.median)) }
                        }
                        @if let Some(ends) = line.published[i] {
                            (published(middle, wide * 0.45, ends, frame))
                        }
                    }
                }
            }
        }
    }
}

/// The name in the legend of figures that were published.
const PUBLISHED: &str = "published";

/// A figure above a bar.
fn figure(v: f64) -> String {
    match v.abs() {
        a if a >= 9.5e5 => format!("{:.1}M", v / 1e6),
        a if a >= 9.5e3 => format!("{:.0}k", v / 1e3),
        a if a >= 99.5 || a == 0.0 => format!("{v:.0}"),
        a if a >= 9.95 => format!("{v:.1}"),
        _ => format!("{v:.2}"),
    }
}

/// The dashes of a line.
fn dashes(series: usize) -> &'static str {
    [
        "none",
        "7 3",
        "2 3",
        "9 3 2 3",
        "5 2",
        "1 2",
        "12 4",
        "6 2 1 2 1 2",
        "4 4",
        "14 3 4 3",
        "9 2 2 2 2 2",
        "2 2 6 2",
    ][series % STYLES]
}

/// A marker of a series about a point.
fn marker(series: usize, x: f64, y: f64) -> Markup {
    // A hollow one is of another shape than that of its colour.
    let style = series % STYLES;
    let shape = if style < COLOURS { style } else { style - COLOURS + 2 };
    let shape = match shape {
        0 => "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
        1 => "M-3.3 -3.3h6.6v6.6h-6.6z",
        2 => "M0 -4.4L4.2 3.2H-4.2z",
        3 => "M0 -4.6L4.6 0L0 4.6L-4.6 0z",
        4 => "M0 4.4L4.2 -3.2H-4.2z",
        5 => "M-1.5 -4.4h3v2.9h2.9v3h-2.9v2.9h-3v-2.9h-2.9v-3h2.9z",
        6 => "M-4.2 -2L-2 -4.2L0 -2.2L2 -4.2L4.2 -2L2.2 0L4.2 2L2 4.2L0 2.2L-2 4.2L-4.2 2L-2.2 0z",
        _ => "M-4.2 -1.4L0 -4.4L4.2 -1.4L2.6 3.6H-2.6z",
    };
    html! { path class="mark" transform=(format!("translate({} {})", n(x), n(y))) d=(shape) {} }
}

fn run(line: &Series, chart: &Chart, frame: &Frame) -> String {
    let mut path = String::new();
    let mut gap = true;
    for (i, quote) in line.points.iter().enumerate() {
        match quote {
            Some(quote) => {
                let step = if gap { 'M' } else { 'L' };
                let (x, y) = (frame.x(chart, i), frame.y(quote.median));
                path.push_str(&format!("{step}{} {}", n(x), n(y)));
                gap = false;
            }
            None => gap = true,
        }
    }
    path
}

fn lines(chart: &Chart, frame: &Frame) -> Markup {
    html! {
        @for (series, line) in chart.lines.iter().enumerate() {
            g class=(class(series)) {
                path class="run" stroke-dasharray=(dashes(series))
                    d=(run(line, chart, frame)) {}
                @for (i, quote) in line.points.iter().enumerate() {
                    @if let Some(quote) = quote {
                        @let x = frame.x(chart, i);
                        (whisker(x, *quote, frame, "errc", 3.0))
                        @if let Some(ends) = line.published[i] { (published(x, 7.0, ends, frame)) }
                        (marker(series, x, frame.y(quote.median)))
                    }
                }
            }
        }
    }
}

/// Where the entries of the legend are, and how many lines they take.
fn legend_places(chart: &Chart) -> (Vec<(f64, usize)>, usize) {
    let (mut x, mut row) = (0.0, 0);
    let all = chart.lines.iter().map(|line| &line.name[..]);
    let places = all.chain(chart.published().next().map(|_| PUBLISHED)).map(|name| {
        let wide = 24.0 + width(name, 12.0) + 10.0;
        if x > 0.0 && x + wide > WIDTH {
            (x, row) = (0.0, row + 1);
        }
        let place = (x, row);
        x += wide;
        place
    });
    (places.collect(), row + 1)
}

fn legend(chart: &Chart, top: f64, id: &str) -> Markup {
    let (places, _) = legend_places(chart);
    let last = places.get(chart.lines.len()).copied();
    html! {
        @if let Some((x, row)) = last {
            @let y = top + row as f64 * 17.0;
            path class="pub" d=(format!("M{} {}h20", n(x), n(y - 4.0))) {}
            text x=(n(x + 24.0)) y=(n(y)) { (PUBLISHED) }
        }
        @for (series, (line, (x, row))) in chart.lines.iter().zip(places).enumerate() {
            @let y = top + row as f64 * 17.0;
            g class=(class(series)) {
                @if chart.form == Form::Bars {
                    rect class="bar" fill=(format!("url(#{id}-p{})", series % STYLES))
                        x=(n(x + 2.0)) y=(n(y - 10.0)) width="15" height="11" {}
                } @else {
                    path class="run" stroke-dasharray=(dashes(series))
                        d=(format!("M{} {}h20", n(x), n(y - 4.0))) {}
                    (marker(series, x + 10.0, y - 4.0))
                }
                text x=(n(x + 24.0)) y=(n(y)) { (line.name) }
            }
        }
    }
}

/// A chart in words, for those who do not see it.
fn described(chart: &Chart) -> String {
    let form = if chart.form == Form::Bars { "Bars" } else { "Lines" };
    let note = if chart.note.is_empty() { String::new() } else { format!("{}. ", chart.note) };
    let names: Vec<&str> = chart.lines.iter().map(|line| &line.name[..]).collect();
    let (low, high) = chart
        .quotes()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), q| (l.min(q.median), h.max(q.median)));
    format!(
        "{form}: {} by {} for {}; medians from {} to {}. {note}The table of medians has all figures.",
        chart.y,
        chart.x,
        names.join(", "),
        figure(low),
        figure(high)
    )
}

/// The drawing; with the title above it if it stands alone.
fn drawing(chart: &Chart, id: &str, is_alone: bool) -> Markup {
    let head = if is_alone { 36.0 } else { 0.0 };
    let frame = Frame::of(chart, head + 22.0);
    let legend_top = frame.bottom() + frame.below(chart) + 34.0;
    let (_, rows) = legend_places(chart);
    let legend_bottom = legend_top + rows as f64 * 17.0;
    let height = legend_bottom - 10.0 + if chart.note.is_empty() { 0.0 } else { 15.0 };
    let xmlns = is_alone.then_some("http://www.w3.org/2000/svg");
    html! {
        svg class="plot" role="img" aria-labelledby=(format!("{id}-t {id}-d"))
            viewBox=(format!("0 0 {WIDTH} {}", n(height))) xmlns=[xmlns] {
            title id=(format!("{id}-t")) { (chart.title) @if !chart.setting.is_empty() { " – " (chart.setting) } }
            desc id=(format!("{id}-d")) { (described(chart)) }
            @if is_alone {
                style { (PreEscaped(STYLE)) }
                rect width="100%" height="100%" style="fill:var(--paper)" {}
                text class="head" x="2" y="15" { (chart.title) }
                text class="soft" font-size="11" x="2" y="31" { (chart.setting) }
            }
            (patterns(chart, id))
            text class="soft" font-size="11" x="2" y=(n(head + 11.0)) { (chart.y) }
            (grid(chart, &frame))
            @match chart.form {
                Form::Bars => (bars(chart, &frame, id)),
                Form::Lines => (lines(chart, &frame)),
            }
            text class="soft" font-size="11" text-anchor="middle"
                x=(n((frame.left + frame.right) / 2.0))
                y=(n(frame.bottom() + frame.below(chart) + 12.0)) { (chart.x) }
            (legend(chart, legend_top, id))
            @if !chart.note.is_empty() {
                text class="soft" font-size="11" x="2" y=(n(legend_bottom)) { (chart.note) }
            }
        }
    }
}

/// A chart within a page that has [`STYLE`]. `id` is the beginning of names that no other chart of the
/// page has.
pub fn inline(chart: &Chart, id: &str) -> Markup {
    drawing(chart, id, false)
}

/// A chart as a file.
pub fn alone(chart: &Chart) -> String {
    drawing(chart, "plot", true).into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::fits;
    use crate::experiment::{self, Scale};
    use crate::plot::chart::Tick;

    fn chart(form: Form, names: &[&str]) -> Chart {
        let quote =
            |median: f64| Quote { median, low: median * 0.9, high: median * 1.1, rounds: 3 };
        let place = |value: f64| Tick {
            value: value.to_string(),
            label: value.to_string(),
            number: Some(value),
        };
        let line = |name: &&str| Series {
            name: name.to_string(),
            points: vec![Some(quote(5.0)), None, Some(quote(50.0))],
            published: vec![Some([20.0, 20.0]), None, Some([7.0, 70.0])],
        };
        Chart {
            title: "<A> & \"B\"".into(),
            setting: String::new(),
            y: "get, ns".into(),
            x: "keys".into(),
            form,
            log_x: true,
            log_y: true,
            is_ratio: false,
            places: [1.0, 10.0, 100.0].map(place).into(),
            lines: names.iter().map(line).collect(),
            note: String::new(),
        }
    }

    #[test]
    fn what_others_wrote_is_escaped() {
        for form in [Form::Bars, Form::Lines] {
            let svg = alone(&chart(form, &["<script>", "b"]));
            assert!(svg.contains("&lt;A&gt; &amp;") && !svg.contains("<script>"), "{svg}");
        }
    }

    #[test]
    fn a_line_has_a_gap_where_nothing_may_be_quoted() {
        let chart = chart(Form::Lines, &["a"]);
        let frame = Frame::of(&chart, 0.0);
        let path = run(&chart.lines[0], &chart, &frame);
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert_eq!(path.matches('L').count(), 0, "{path}");
        let (first, middle, last) = (frame.x(&chart, 0), frame.x(&chart, 1), frame.x(&chart, 2));
        assert!((middle - (first + last) / 2.0).abs() < 1e-6, "a decade each");
        assert!(frame.y(50.0) < frame.y(5.0) && frame.y(50.0) > 0.0);
    }

    #[test]
    fn a_bar_and_a_whisker_are_drawn_for_each_figure() {
        let svg = alone(&chart(Form::Bars, &["a", "b"]));
        // Two places of two systems, and two entries of the legend.
        assert_eq!(svg.matches("<rect class=\"bar\"").count(), 6);
        assert_eq!(svg.matches("class=\"err\"").count(), 4);
        assert!(svg.contains("url(#plot-p1)") && svg.contains("id=\"plot-p1\""));
    }

    #[test]
    fn all_styles_can_be_told_apart() {
        let shown = |of: &dyn Fn(usize) -> String| -> Vec<String> { (0..STYLES).map(of).collect() };
        // Even without colours.
        let fill = |series: usize| {
            let is_hollow = class(series).ends_with("hollow");
            format!("{is_hollow} {:?}", hatch(series).map(Markup::into_string))
        };
        let mark = |series: usize| {
            let is_hollow = class(series).ends_with("hollow");
            format!("{is_hollow} {}", marker(series, 0.0, 0.0).into_string())
        };
        for styles in [shown(&fill), shown(&mark), shown(&|series| dashes(series).into())] {
            let each: std::collections::HashSet<&String> = styles.iter().collect();
            assert_eq!(each.len(), STYLES, "{styles:?}");
        }
    }

    #[test]
    fn no_plot_has_more_series_than_styles() {
        for experiment in experiment::all(&experiment::root()).expect("they are") {
            for plot in &experiment.plots {
                let mut series: Vec<String> = Vec::new();
                for cell in experiment.cells(Scale::Default) {
                    let is_in = fits(&plot.only, |name| cell.get(name));
                    let name =
                        cell.get(&plot.series).filter(|_| is_in && cell.get(&plot.x).is_some());
                    series.extend(name.filter(|name| !series.contains(name)));
                }
                assert!(series.len() <= STYLES, "{}: {series:?}", experiment.name);
            }
        }
    }

    #[test]
    fn a_long_legend_takes_more_lines() {
        let names = ["a system with a long name"; 5];
        assert_eq!(legend_places(&chart(Form::Lines, &names)).1, 3);
        assert_eq!(legend_places(&chart(Form::Lines, &["a", "b"])).1, 1);
    }
}
