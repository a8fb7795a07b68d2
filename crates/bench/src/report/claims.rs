//! Published figures beside ours.

use maud::{Markup, html};

use crate::compare::number;
use crate::experiment::{Claim, Published, fits};
use crate::metric;
use crate::rows::Row;
use crate::summary::{Quote, quote, ratio, rounds};

/// How far ours may be from the published figure and still be called reproduced, where a claim does
/// not say.
pub const ALIKE: f64 = 0.2;

/// What begins the words of a claim that is a bar of our own: to be reached or passed.
pub const BAR: &str = "bar:";

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Within the distance that it asks for, or a bar reached.
    Met,
    /// Not that.
    Missed,
    /// As near as [`ALIKE`].
    Reproduced,
    /// A ratio on the same side of 1, of another size.
    SameDirection,
    /// Another figure.
    Differs,
    /// Beside one another only: nothing was published, or a time of another machine.
    Shown,
    /// Not measured, or a time that was taken once.
    Unquoted,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Reproduced => "reproduced",
            Self::SameDirection => "same direction",
            Self::Differs => "differs",
            Self::Shown => "not judged",
            Self::Unquoted => "no figure",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Met | Self::Reproduced => "good",
            Self::Missed | Self::Differs => "bad",
            Self::SameDirection => "fair",
            Self::Shown | Self::Unquoted => "none",
        }
    }
}

/// A claim and what our figure makes of it.
#[derive(Debug, Clone)]
pub struct Judged<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// Our figure, if one may be quoted.
    pub ours: Option<Quote>,
    /// Rounds that were measured.
    pub rounds: usize,
    /// What becomes of it.
    pub verdict: Verdict,
    /// How far a bar is reached: 1 is reached.
    pub score: Option<f64>,
}

/// The two ends of what was published.
fn ends(published: Published) -> [f64; 2] {
    match published {
        Published::One(v) => [v, v],
        Published::Range([a, b]) => [a.min(b), a.max(b)],
    }
}

/// The relative distance of a figure from what was published: none within a range.
pub fn distance(ours: f64, published: Published) -> f64 {
    let [low, high] = ends(published);
    let off = (low - ours).max(ours - high).max(0.0);
    let end = if ours < low { low } else { high };
    if off == 0.0 { 0.0 } else { off / end.abs() }
}

/// Whether less of what a claim is about is better. Rates are better if they are higher, all else if
/// lower; a ratio of a time *of* another system *over* Everleaf's is better if higher.
fn less_is_better(claim: &Claim) -> bool {
    let is_ours = |of: &toml::Table| {
        let system = of.get("system").and_then(toml::Value::as_str);
        system.is_none_or(super::is_ours)
    };
    let inverted = claim.over.as_ref().is_some_and(|over| !is_ours(&claim.of) && is_ours(over));
    metric::more_is_better(&claim.metric) == inverted
}

fn score(claim: &Claim, ours: f64) -> Option<f64> {
    let [low, high] = ends(claim.published?);
    Some(if less_is_better(claim) { high / ours } else { ours / low })
}

fn verdict(claim: &Claim, ours: Option<Quote>, score: Option<f64>) -> Verdict {
    let Some(Quote { median, .. }) = ours else { return Verdict::Unquoted };
    let Some(published) = claim.published else { return Verdict::Shown };
    let distance = distance(median, published);
    let met = |is_met| if is_met { Verdict::Met } else { Verdict::Missed };
    if claim.what.starts_with(BAR) {
        return met(score.is_some_and(|score| score >= 1.0));
    }
    if let Some(within) = claim.within {
        // Decimal figures are not exact in binary.
        return met(distance <= within + 1e-9);
    }
    if claim.over.is_none() && metric::is_timed(&claim.metric) {
        return Verdict::Shown;
    }
    let [low, high] = ends(published);
    let beside_one = |v: f64| (v > 1.0, v < 1.0);
    match distance {
        d if d <= ALIKE => Verdict::Reproduced,
        _ if claim.over.is_none() => Verdict::Differs,
        _ if beside_one(low) == beside_one(median) && beside_one(high) == beside_one(median) => {
            Verdict::SameDirection
        }
        _ => Verdict::Differs,
    }
}

/// Looks up our figure and judges it.
pub fn judge<'a>(claim: &'a Claim, rows: &[Row]) -> Judged<'a> {
    let of = |only: &toml::Table| {
        rounds(rows, &claim.metric, |row| fits(only, |name| row.get(name).map(str::to_string)))
    };
    let own = of(&claim.of);
    let (ours, rounds) = match &claim.over {
        None => (quote(&claim.metric, &own), own.len()),
        Some(over) => {
            let over = of(over);
            let both = own.keys().filter(|round| over.contains_key(round)).count();
            (ratio(&claim.metric, &own, &over), both)
        }
    };
    let bar = ours.filter(|_| claim.what.starts_with(BAR));
    let score = bar.and_then(|quote| score(claim, quote.median));
    Judged { claim, ours, rounds, verdict: verdict(claim, ours, score), score }
}

/// A figure without zeros at its end: 8.600 says no more than 8.6.
fn trimmed(v: f64) -> String {
    let text = number(Some(v));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// A figure with its unit, or how many times.
fn with_unit(claim: &Claim, v: f64) -> String {
    let unit = match &claim.over {
        Some(_) => "×",
        None => metric::unit(&claim.metric).unwrap_or_default(),
    };
    let text = trimmed(v);
    if unit.is_empty() { text } else { format!("{text}\u{a0}{unit}") }
}

/// What was published, as it is shown.
pub fn published(claim: &Claim) -> String {
    if let (true, Some(of)) = (claim.what.starts_with(BAR), claim.published) {
        let [low, high] = ends(of);
        let (sign, end) = if less_is_better(claim) { ("≤", high) } else { ("≥", low) };
        return format!("{sign}\u{a0}{}", with_unit(claim, end));
    }
    match claim.published {
        None => "–".into(),
        Some(Published::One(v)) => with_unit(claim, v),
        Some(Published::Range([a, b])) => {
            format!("{} to {}", trimmed(a), with_unit(claim, b))
        }
    }
}

/// Our figure with its range; a dash if none may be quoted.
pub fn ours(judged: &Judged) -> Markup {
    html! {
        @match judged.ours {
            None => "–",
            Some(q) => {
                (with_unit(judged.claim, q.median))
                @if q.low < q.high {
                    span class="range" { (number(Some(q.low))) "…" (number(Some(q.high))) }
                }
            }
        }
    }
}

/// A verdict as a mark with its word.
pub fn badge(verdict: Verdict) -> Markup {
    html! { span class=(format!("badge {}", verdict.class())) { (verdict.words()) } }
}

/// Why there is no figure, or why it is another.
fn why(judged: &Judged) -> Markup {
    html! {
        @match (judged.verdict, judged.rounds) {
            (Verdict::Unquoted, 0) => span class="soft" { "Not measured at this scale. " },
            (Verdict::Unquoted, _) => span class="soft" { "One round: not quoted. " },
            _ => {}
        }
        (judged.claim.why.trim())
    }
}

/// The table of claims; nothing without any.
pub fn table(judged: &[Judged]) -> Markup {
    html! {
        @if !judged.is_empty() {
            div class="scroll" { table class="claims" {
                caption { "Published figures beside ours" }
                thead { tr { th scope="col" { "What" } th scope="col" { "Published" }
                    th scope="col" { "Ours" } th scope="col" { "Why" } } }
                tbody { @for one in judged {
                    tr data-metric=(one.claim.metric) data-rounds=(one.rounds) {
                        th scope="row" { (one.claim.what) }
                        td class="num" data-label="Published" { (published(one.claim))
                            @if let Some(within) = one.claim.within {
                                span class="range" {
                                    @if within == 0.0 { "exactly" } @else { "± " (trimmed(within * 100.0)) " %" }
                                }
                            }
                        }
                        td class="num" data-label="Ours" { (ours(one)) }
                        td { (badge(one.verdict)) " " (why(one)) }
                    }
                } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::row;

    fn claim(text: &str) -> Claim {
        toml::from_str(&format!("what = \"w\"\n{text}")).expect("a claim")
    }

    fn rows(metric: &str, a: &[f64], b: &[f64]) -> Vec<Row> {
        let of = |system: &'static str, figures: &[f64]| -> Vec<Row> {
            let of = (1..).zip(figures);
            of.map(|(round, v)| row(&[("system", system)], round, metric, *v)).collect()
        };
        [of("A", a), of("Everleaf", b)].concat()
    }

    const OF: &str = "metric = \"get_mean_ns\"\nof = { system = \"A\" }\n";
    const OVER: &str = "over = { system = \"Everleaf\" }\n";

    fn judged(claim: &Claim, rows: &[Row]) -> (Verdict, Option<f64>) {
        let judged = judge(claim, rows);
        (judged.verdict, judged.ours.map(|q| q.median))
    }

    #[test]
    fn a_lone_time_has_no_figure_and_a_lone_count_has() {
        let ratio = claim(&format!("published = 2.0\n{OF}{OVER}"));
        assert_eq!(judged(&ratio, &rows("get_mean_ns", &[4.0], &[2.0])), (Verdict::Unquoted, None));
        assert_eq!(judged(&ratio, &[]), (Verdict::Unquoted, None));
        let both = rows("get_mean_ns", &[4.0, 9.0], &[2.0, 4.0]);
        assert_eq!(judged(&ratio, &both), (Verdict::Reproduced, Some(2.125)));
        let count =
            claim("published = 4\nwithin = 0.0\nmetric = \"lines\"\nof = { system = \"A\" }");
        assert_eq!(judged(&count, &rows("lines", &[4.0], &[])), (Verdict::Met, Some(4.0)));
        let table = table(&[judge(&ratio, &rows("get_mean_ns", &[4.0], &[2.0]))]).into_string();
        assert!(table.contains("One round") && !table.contains("4.0"), "{table}");
    }

    #[test]
    fn exact_claims_are_met_within_their_distance_only() {
        let count =
            claim("published = 3.861\nwithin = 0.01\nmetric = \"lines\"\nof = { system = \"A\" }");
        let verdict = |v: f64| judged(&count, &rows("lines", &[v], &[])).0;
        assert_eq!(verdict(3.861 * 1.01), Verdict::Met);
        assert_eq!(verdict(3.861 * 1.0101), Verdict::Missed);
        assert_eq!(verdict(3.861 * 0.98), Verdict::Missed);
        let zero =
            claim("published = 0\nwithin = 0.5\nmetric = \"lines\"\nof = { system = \"A\" }");
        assert_eq!(judged(&zero, &rows("lines", &[0.0], &[])).0, Verdict::Met);
        assert_eq!(judged(&zero, &rows("lines", &[0.1], &[])).0, Verdict::Missed);
    }

    #[test]
    fn others_are_near_or_of_the_same_direction_or_differ() {
        let range = claim(&format!("published = [2.0, 4.0]\n{OF}{OVER}"));
        let verdict = |v: f64| judged(&range, &rows("get_mean_ns", &[v, v], &[1.0, 1.0])).0;
        assert_eq!(verdict(3.0), Verdict::Reproduced);
        assert_eq!(verdict(4.7), Verdict::Reproduced);
        assert_eq!(verdict(1.4), Verdict::SameDirection);
        assert_eq!(verdict(0.9), Verdict::Differs);
        assert_eq!(published(&range), "2 to 4\u{a0}×");
        let absolute = claim(&format!("published = 100\n{OF}"));
        let rows = rows("get_mean_ns", &[1.0, 1.0], &[]);
        assert_eq!(judged(&absolute, &rows).0, Verdict::Shown, "a time of another machine");
    }

    #[test]
    fn bars_are_reached_from_their_better_side() {
        let bar = |text: &str| {
            let mut claim = claim(text);
            claim.what = "bar: W1".into();
            claim
        };
        let score = |claim: &Claim, rows: &[Row]| judge(claim, rows).score.expect("a score");
        let ms = bar("published = 10\nmetric = \"put_max_ms\"\nof = { system = \"A\" }");
        assert_eq!(score(&ms, &rows("put_max_ms", &[5.0, 5.0], &[])), 2.0);
        assert_eq!(published(&ms), "≤\u{a0}10\u{a0}ms");
        let rate = "published = 3\nmetric = \"kops\"\nof = { system = \"Everleaf\" }\nover = { system = \"A\" }";
        let rows = rows("kops", &[1.0, 1.0], &[1.5, 1.5]);
        assert_eq!(score(&bar(rate), &rows), 0.5);
        assert_eq!(published(&bar(rate)), "≥\u{a0}3\u{a0}×");
        assert_eq!(judged(&bar(rate), &rows).0, Verdict::Missed);
        let time = bar(&format!("published = 3\n{OF}{OVER}"));
        let rows = super::tests::rows("get_mean_ns", &[6.0, 6.0], &[1.0, 1.0]);
        assert_eq!((score(&time, &rows), judged(&time, &rows).0), (2.0, Verdict::Met));
    }
}
