//! Published figures beside ours.

use maud::{Markup, html};

use super::prose::prose;
use super::verdict::{ALIKE, ClaimVerdict, distance, effect, ends, says_nothing, share};
use crate::cell::fits;
use crate::cell::is_ours;
use crate::compare::number;
use crate::experiment::{Claim, Published};
use crate::metric;
use crate::rows::Row;
use crate::summary::{Quote, Rounds, interval, paired, quote, rounds, runs};

/// Begins the words of a claim that is a bar of our own: to be reached or passed.
pub const BAR: &str = "bar:";

/// A count that says why a figure is as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Because {
    /// It, in words.
    pub text: String,
    /// The number of the figure that it is of, and where that is, if it is another one.
    pub from: Option<(String, String)>,
}

/// A claim and what our figure makes of it.
#[derive(Debug, Clone)]
pub struct Judged<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// Our figure, if one may be quoted.
    pub ours: Option<Quote>,
    /// Where its median lies with 95 %, see [`interval`].
    pub interval: [f64; 2],
    /// Rounds that were measured.
    pub rounds: usize,
    /// The runs that they are of.
    pub runs: usize,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// Which part of the published effect ours is.
    pub share: Option<f64>,
    /// Counts that say why, in words.
    pub because: Vec<Because>,
    /// How far a bar is reached: 1 is reached.
    pub score: Option<f64>,
}

/// Of judged claims the one that is farthest from what was published, with how far: relative, or, as
/// there are no parts of 0, by how much.
pub fn farthest<'a, 'b>(
    judged: impl IntoIterator<Item = &'b Judged<'a>>,
) -> Option<(&'b Judged<'a>, String)>
where
    'a: 'b,
{
    let off = |one: &'b Judged<'a>| {
        let ours = one.ours?.median;
        Some((one, distance(ours, one.claim.published?), ours))
    };
    let off = judged.into_iter().filter_map(off);
    let (one, relative, ours) = off.max_by(|a, b| a.1.total_cmp(&b.1).then(a.2.total_cmp(&b.2)))?;
    let text = match relative.is_finite() {
        true => format!("{}\u{a0}%", trimmed(relative * 100.0)),
        false => format!("{} instead of 0", with_unit(one.claim, ours)),
    };
    Some((one, text))
}

/// Whether less of what a claim is about is better. Rates are better if they are higher, all else if
/// lower; a ratio of a time *of* another system *over* Everleaf's is better if higher.
fn less_is_better(claim: &Claim) -> bool {
    let is_ours = |of: &toml::Table| {
        let system = of.get("system").and_then(toml::Value::as_str);
        system.is_none_or(is_ours)
    };
    let inverted = claim.over.as_ref().is_some_and(|over| !is_ours(&claim.of) && is_ours(over));
    metric::more_is_better(&claim.metric) == inverted
}

fn score(claim: &Claim, ours: f64) -> Option<f64> {
    let [low, high] = ends(claim.published?);
    Some(if less_is_better(claim) { high / ours } else { ours / low })
}

/// The verdict on a bar.
fn reached(claim: &Claim, ours: Quote) -> ClaimVerdict {
    let (worst, best) = match less_is_better(claim) {
        true => (ours.high, ours.low),
        false => (ours.low, ours.high),
    };
    let is_reached = |v| score(claim, v).is_some_and(|score| score >= 1.0);
    match (is_reached(worst), is_reached(best)) {
        (true, _) => ClaimVerdict::Met,
        (false, true) => ClaimVerdict::Noise,
        (false, false) => ClaimVerdict::Missed,
    }
}

fn verdict(claim: &Claim, ours: Option<Quote>, interval: [f64; 2]) -> ClaimVerdict {
    let Some(ours) = ours else { return ClaimVerdict::Unquoted };
    let Some(published) = claim.published.filter(|_| claim.judge) else {
        return ClaimVerdict::Shown;
    };
    if claim.what.starts_with(BAR) {
        return reached(claim, ours);
    }
    let distance = distance(ours.median, published);
    if let Some(within) = claim.within {
        // Decimal figures are not exact in binary.
        return match (distance <= within + 1e-9, claim.formula.is_empty()) {
            (true, true) => ClaimVerdict::Met,
            (true, false) => ClaimVerdict::Agrees,
            (false, _) => ClaimVerdict::Missed,
        };
    }
    match claim.over {
        Some(_) if says_nothing(published) => ClaimVerdict::Shown,
        Some(_) => effect(ours.median, interval, published),
        None if metric::is_timed(&claim.metric) => ClaimVerdict::Shown,
        None if distance <= ALIKE => ClaimVerdict::Reproduced,
        None => ClaimVerdict::Differs,
    }
}

/// The rounds of a claim's figure, and of what it is divided by.
pub fn sides(claim: &Claim, rows: &[Row]) -> (Rounds, Option<Rounds>) {
    let of = |only: &toml::Table, metric: &str| {
        rounds(rows, metric, |row| fits(only, |name| row.get(name).map(str::to_string)))
    };
    let metric = claim.over_metric.as_ref().unwrap_or(&claim.metric);
    (of(&claim.of, &claim.metric), claim.over.as_ref().map(|over| of(over, metric)))
}

/// Looks up our figure and judges it.
pub fn judge<'a>(claim: &'a Claim, rows: &[Row]) -> Judged<'a> {
    let (own, over) = sides(claim, rows);
    let figures = over.map_or_else(|| own.clone(), |over| paired(&own, &over));
    let ours = quote(&claim.metric, &figures);
    let interval = interval(&figures);
    let bar = ours.filter(|_| claim.judge && claim.what.starts_with(BAR));
    let score = bar.and_then(|quote| score(claim, quote.median));
    let is_ratio = claim.over.is_some() && score.is_none() && claim.judge;
    let published = claim.published.filter(|_| is_ratio && claim.within.is_none());
    let share = ours.zip(published).and_then(|(ours, published)| share(ours.median, published));
    let verdict = verdict(claim, ours, interval);
    let (rounds, runs) = (figures.len(), runs(&figures));
    Judged { claim, ours, interval, rounds, runs, verdict, share, score, because: Vec::new() }
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

/// The published figure, as it is shown.
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

/// Our figure with where it may lie; a dash if none may be quoted.
pub fn ours(judged: &Judged) -> Markup {
    html! {
        @match judged.ours {
            None => "–",
            Some(q) => {
                (with_unit(judged.claim, q.median))
                @let [low, high] = judged.interval;
                @if low < high {
                    span class="range" { (number(Some(low))) "…" (number(Some(high)))
                        @if judged.runs > 1 { " of " (judged.runs) " runs" } }
                }
            }
        }
    }
}

/// A verdict as a mark with its word.
pub fn badge(verdict: ClaimVerdict) -> Markup {
    html! { span class=(format!("badge {}", verdict.class())) { (verdict.words()) } }
}

/// Why there is no figure, or why it is another.
fn why(judged: &Judged) -> Markup {
    html! {
        @match (judged.verdict, judged.rounds) {
            (ClaimVerdict::Unquoted, 0) => span class="soft" { "Not measured at this scale. " },
            (ClaimVerdict::Unquoted, _) => span class="soft" { "One round: not quoted. " },
            _ => {}
        }
        (prose(&judged.claim.why))
        @for one in &judged.because {
            " " (one.text)
            @if let Some((number, anchor)) = &one.from { " (" a href=(format!("#{anchor}")) { (number) } ")" }
            "."
        }
        @if !judged.claim.conjecture.is_empty() { " Our guess: " (prose(&judged.claim.conjecture)) }
    }
}

/// Which part of the published effect ours is, in words.
fn share_of(judged: &Judged) -> Markup {
    html! {
        @if let Some(share) = judged.share {
            span class="range" { (format!("{:.0} % of the effect", 100.0 * share)) }
        }
    }
}

/// Whether a claim has the reason of the one before.
fn is_again(judged: &[Judged], i: usize) -> bool {
    let said =
        |one: &Judged| (one.claim.why.clone(), one.claim.conjecture.clone(), one.because.clone());
    let (own, has) = (said(&judged[i]), said(&judged[i]) != Default::default());
    has && i > 0 && said(&judged[i - 1]) == own
}

/// The table of claims; nothing without any.
pub fn table(judged: &[Judged]) -> Markup {
    html! {
        @if !judged.is_empty() {
            div class="scroll" { table class="claims" {
                caption { "Published figures beside ours, with the interval of 95 %" }
                thead { tr { th scope="col" { "What" } th scope="col" { "Published" }
                    th scope="col" { "Ours" } th scope="col" { "Why" } } }
                tbody { @for (i, one) in judged.iter().enumerate() {
                    tr data-metric=(one.claim.metric) data-rounds=(one.rounds) {
                        th scope="row" { (prose(&one.claim.what)) }
                        td class="num" data-label="Published" { (published(one.claim))
                            @if let Some(within) = one.claim.within {
                                span class="range" {
                                    @if within == 0.0 { "exactly" } @else { "± " (trimmed(within * 100.0)) " %" }
                                }
                            }
                        }
                        td class="num" data-label="Ours" { (ours(one)) }
                        td { (badge(one.verdict)) (share_of(one)) " " span class="screen" {
                            @if is_again(judged, i) { span class="soft" { "As above." } } @else { (why(one)) } } }
                    }
                } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::chart::tests::row;

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

    fn judged(claim: &Claim, rows: &[Row]) -> (ClaimVerdict, Option<f64>) {
        let judged = judge(claim, rows);
        (judged.verdict, judged.ours.map(|q| q.median))
    }

    #[test]
    fn a_lone_time_has_no_figure_and_a_lone_count_has() {
        let ratio = claim(&format!("published = 2.0\n{OF}{OVER}"));
        assert_eq!(
            judged(&ratio, &rows("get_mean_ns", &[4.0], &[2.0])),
            (ClaimVerdict::Unquoted, None)
        );
        assert_eq!(judged(&ratio, &[]), (ClaimVerdict::Unquoted, None));
        let both = rows("get_mean_ns", &[4.0, 9.0], &[2.0, 4.0]);
        assert_eq!(judged(&ratio, &both), (ClaimVerdict::Reproduced, Some(2.125)));
        let count =
            claim("published = 4\nwithin = 0.0\nmetric = \"lines\"\nof = { system = \"A\" }");
        assert_eq!(judged(&count, &rows("lines", &[4.0], &[])), (ClaimVerdict::Met, Some(4.0)));
        let table = table(&[judge(&ratio, &rows("get_mean_ns", &[4.0], &[2.0]))]).into_string();
        assert!(table.contains("One round") && !table.contains("4.0"), "{table}");
    }

    #[test]
    fn exact_claims_are_met_within_their_distance_only() {
        let count =
            claim("published = 3.861\nwithin = 0.01\nmetric = \"lines\"\nof = { system = \"A\" }");
        let verdict = |v: f64| judged(&count, &rows("lines", &[v], &[])).0;
        assert_eq!(verdict(3.861 * 1.01), ClaimVerdict::Met);
        assert_eq!(verdict(3.861 * 1.0101), ClaimVerdict::Missed);
        assert_eq!(verdict(3.861 * 0.98), ClaimVerdict::Missed);
        let zero =
            claim("published = 0\nwithin = 0.5\nmetric = \"lines\"\nof = { system = \"A\" }");
        assert_eq!(judged(&zero, &rows("lines", &[0.0], &[])).0, ClaimVerdict::Met);
        assert_eq!(judged(&zero, &rows("lines", &[0.1], &[])).0, ClaimVerdict::Missed);
    }

    /// The verdict on a published ratio beside ours of two rounds.
    fn beside(published: &str, ours: [f64; 2]) -> ClaimVerdict {
        let claim = claim(&format!("published = {published}\n{OF}{OVER}"));
        judged(&claim, &rows("get_mean_ns", &ours, &[1.0, 1.0])).0
    }

    #[test]
    fn a_ratio_is_reproduced_if_its_effect_is() {
        let alike = |published: &str, ours: f64| beside(published, [ours, ours]);
        for (ours, verdict) in [
            (2.0, ClaimVerdict::Reproduced),
            (1.75, ClaimVerdict::Reproduced),
            (1.74, ClaimVerdict::SameDirection),
            (5.27, ClaimVerdict::Reproduced),
            (5.29, ClaimVerdict::SameDirection),
            (0.9, ClaimVerdict::Differs),
            (1.0, ClaimVerdict::Differs),
        ] {
            assert_eq!(alike("[2.0, 4.0]", ours), verdict, "{ours}");
        }
        assert_eq!(alike("0.831", 0.99), ClaimVerdict::SameDirection, "nearly no effect");
        assert_eq!(alike("0.831", 0.85), ClaimVerdict::Reproduced);
        assert_eq!(alike("0.87", 1.04), ClaimVerdict::Differs, "the opposite one");
        assert_eq!(alike("[1.18, 1.07]", 0.9), ClaimVerdict::Differs, "the opposite one");
        assert_eq!(alike("[1.18, 1.07]", 1.06), ClaimVerdict::Reproduced);
        assert_eq!(alike("0", 0.5), ClaimVerdict::SameDirection, "no power of it is near 0");
    }

    #[test]
    fn what_was_published_as_comparable_may_be_on_either_side() {
        let alike = |published: &str, ours: f64| beside(published, [ours, ours]);
        assert_eq!(alike("1.0", 0.98), ClaimVerdict::Reproduced);
        assert_eq!(alike("1.02", 1.05), ClaimVerdict::Reproduced);
        assert_eq!(alike("1.02", 0.98), ClaimVerdict::Differs, "the opposite one");
        assert_eq!(alike("1.02", 0.96), ClaimVerdict::Differs);
        assert_eq!(alike("1.02", 3.0), ClaimVerdict::Differs, "an effect where there was none");
        assert_eq!(alike("[1.02, 1.3]", 2.0), ClaimVerdict::SameDirection);
        for ours in [0.1, 1.1, 1.5] {
            assert_eq!(alike("[0.7, 1.3]", ours), ClaimVerdict::Shown, "true of anything");
        }
        assert_eq!(beside("1.02", [0.97, 1.05]), ClaimVerdict::Undecided);
        assert_eq!(beside("1.0", [0.97, 1.05]), ClaimVerdict::Reproduced);
    }

    #[test]
    fn the_share_of_an_effect_is_that_of_its_logarithm() {
        let of = |published: &str, ours: f64| {
            let claim = claim(&format!("published = {published}\n{OF}{OVER}"));
            judge(&claim, &rows("get_mean_ns", &[ours, ours], &[1.0, 1.0])).share
        };
        let is = |share: Option<f64>, v: f64| share.is_some_and(|share| (share - v).abs() < 1e-3);
        assert!(is(of("8.6", 1.6), 0.218) && is(of("0.25", 0.5), 0.5) && is(of("0.5", 2.0), -1.0));
        assert!(is(of("[2.0, 4.0]", 3.0), 1.0) && is(of("[2.0, 4.0]", 16.0), 2.0));
        assert_eq!((of("1.02", 3.0), of("[0.7, 1.3]", 3.0)), (None, None));
    }

    #[test]
    fn a_count_behind_a_formula_agrees_and_is_not_met() {
        let text = "published = 3\nwithin = 0.0\nmetric = \"lines\"\nof = { system = \"A\" }";
        let claim = claim(&format!("{text}\nformula = \"lines + 1\""));
        assert_eq!(judged(&claim, &rows("lines", &[3.0], &[])).0, ClaimVerdict::Agrees);
        assert_eq!(judged(&claim, &rows("lines", &[4.0], &[])).0, ClaimVerdict::Missed);
    }

    #[test]
    fn rounds_on_both_sides_of_one_decide_nothing() {
        assert_eq!(beside("0.87", [0.9, 1.01]), ClaimVerdict::Undecided);
        assert_eq!(
            beside("8.6", [0.98, 1.03]),
            ClaimVerdict::Differs,
            "far from what was published"
        );
        assert_eq!(beside("1.4", [1.0, 1.8]), ClaimVerdict::Undecided);
        assert_eq!(beside("1.4", [1.1, 1.8]), ClaimVerdict::Reproduced);
        let counts = claim(
            "published = 2\nmetric = \"lines\"\nof = { system = \"A\" }\nover = { system = \"Everleaf\" }",
        );
        assert_eq!(
            judged(&counts, &rows("lines", &[3.0], &[3.0])).0,
            ClaimVerdict::Differs,
            "exact"
        );
    }

    #[test]
    fn absolute_figures_are_near_or_differ_and_times_are_shown() {
        let absolute = claim(&format!("published = 100\n{OF}"));
        let times = rows("get_mean_ns", &[1.0, 1.0], &[]);
        assert_eq!(judged(&absolute, &times).0, ClaimVerdict::Shown, "a time of another machine");
        let count = claim("published = 10\nmetric = \"lines\"\nof = { system = \"A\" }");
        assert_eq!(judged(&count, &rows("lines", &[12.0], &[])).0, ClaimVerdict::Reproduced);
        assert_eq!(judged(&count, &rows("lines", &[7.9], &[])).0, ClaimVerdict::Differs);
        let range = claim(&format!("published = [2.0, 4.0]\n{OF}{OVER}"));
        assert_eq!(published(&range), "2 to 4\u{a0}×");
    }

    #[test]
    fn what_is_another_comparison_is_shown_only() {
        let own = rows("lines", &[3.0], &[]);
        let of = "metric = \"lines\"\nof = { system = \"A\" }";
        let mut other = claim(&format!("published = 3\njudge = false\nwithin = 0.0\n{of}"));
        assert_eq!(judged(&other, &own), (ClaimVerdict::Shown, Some(3.0)));
        other.what = format!("{BAR} W1");
        let judged = judge(&other, &own);
        assert_eq!((judged.verdict, judged.score), (ClaimVerdict::Shown, None));
    }

    #[test]
    fn nothing_is_some_parts_of_zero_away() {
        let claim = |published: &str| {
            claim(&format!(
                "published = {published}\nmetric = \"lines\"\nof = {{ system = \"A\" }}"
            ))
        };
        let (zero, ten) = (claim("0"), claim("10"));
        let of = |claim, v: f64| judge(claim, &rows("lines", &[v], &[]));
        let farthest = |judged: &[Judged]| farthest(judged).map(|(_, text)| text);
        let judged = [of(&ten, 15.0), of(&zero, 0.25), of(&zero, 0.5), of(&zero, 0.0)];
        assert_eq!(farthest(&judged).as_deref(), Some("0.5\u{a0}lines instead of 0"));
        assert_eq!(farthest(&judged[..1]).as_deref(), Some("50\u{a0}%"));
        assert_eq!(farthest(&judged[3..]).as_deref(), Some("0\u{a0}%"));
        assert_eq!(farthest(&[judge(&ten, &[])]), None);
        assert_eq!(distance(f64::NAN, Published::One(1.0)), f64::INFINITY, "0 over 0");
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
        assert_eq!(judged(&bar(rate), &rows).0, ClaimVerdict::Missed);
        let time = bar(&format!("published = 3\n{OF}{OVER}"));
        let rows = super::tests::rows("get_mean_ns", &[6.0, 6.0], &[1.0, 1.0]);
        assert_eq!((score(&time, &rows), judged(&time, &rows).0), (2.0, ClaimVerdict::Met));
    }

    #[test]
    fn a_bar_within_the_rounds_is_neither_reached_nor_missed() {
        let mut most =
            claim("published = [0.0, 5.0]\nmetric = \"open_ms\"\nof = { system = \"A\" }");
        let mut least = claim("published = 5\nmetric = \"kops\"\nof = { system = \"A\" }");
        for claim in [&mut most, &mut least] {
            claim.what = "bar: W7".into();
        }
        let ms = |ours: [f64; 2]| judged(&most, &rows("open_ms", &ours, &[])).0;
        let kops = |ours: [f64; 2]| judged(&least, &rows("kops", &ours, &[])).0;
        assert_eq!((ms([4.0, 5.0]), kops([4.0, 5.0])), (ClaimVerdict::Met, ClaimVerdict::Noise));
        assert_eq!((ms([5.0, 9.0]), kops([5.0, 9.0])), (ClaimVerdict::Noise, ClaimVerdict::Met));
        assert_eq!(
            (ms([5.1, 9.0]), kops([4.0, 4.9])),
            (ClaimVerdict::Missed, ClaimVerdict::Missed)
        );
    }
}
