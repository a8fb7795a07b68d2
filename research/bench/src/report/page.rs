//! The page: a summary, what is in it, and the experiments by paper.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::claims::{self, BAR, Because, Judged};
use super::part::{self, JudgedExperiment, Loaded, anchor};
use super::prose::prose;
use super::verdict::{ALIKE, ClaimVerdict, LITTLE};
use super::{findings, losses, peers, section};
use crate::compare::number;
use crate::experiment::{Counted, Scale};
use crate::host::Host;
use crate::metric;
use crate::plot::{self, names};

const STYLE: &str = include_str!("style.css");

/// The folder of exact counts that must be met.
const ACCEPTANCE: &str = "errata/";

/// How many of the results that are farthest from their bars are shown first.
const WORST: usize = 3;

/// The folder of an experiment.
fn folder(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

fn parts<'a>(all: &'a [Loaded<'a>]) -> Vec<JudgedExperiment<'a>> {
    let judge = |loaded: &'a Loaded<'a>| {
        let judged = loaded.experiment.claims.iter().map(|claim| {
            let counted = claim.counted.iter().filter_map(|one| because(all, loaded, one));
            Judged { because: counted.collect(), ..claims::judge(claim, &loaded.rows) }
        });
        JudgedExperiment { loaded, judged: judged.collect() }
    };
    all.iter().map(judge).collect()
}

/// A count of a claim's own experiment or of another one, in words.
fn because(all: &[Loaded], own: &Loaded, counted: &Counted) -> Option<Because> {
    let name = counted.experiment.as_ref().unwrap_or(&own.experiment.name);
    let other = all.iter().find(|loaded| loaded.experiment.name == *name)?;
    let unit = match counted.over {
        Some(_) => "×",
        None => metric::unit(&counted.metric).unwrap_or_default(),
    };
    let figure = number(Some(part::quoted(other, counted)?.median));
    let text = format!("{}: {figure}\u{a0}{unit}", counted.what);
    let number = other.experiment.number().unwrap_or(&other.experiment.title);
    let from = (name != &own.experiment.name).then(|| (number.into(), anchor(name)));
    Some(Because { text: text.trim_end().into(), from })
}

/// Experiments by folder, in their order.
fn papers<'a, 'b>(
    parts: &'b [JudgedExperiment<'a>],
) -> Vec<(&'a str, Vec<&'b JudgedExperiment<'a>>)> {
    let mut papers: Vec<(&str, Vec<&JudgedExperiment>)> = Vec::new();
    for part in parts {
        let folder = folder(&part.loaded.experiment.name);
        match papers.iter_mut().find(|(own, _)| *own == folder) {
            Some((_, of)) => of.push(part),
            None => papers.push((folder, vec![part])),
        }
    }
    papers.sort_by_key(|(folder, _)| names::place(folder));
    papers
}

/// Where figures were taken, and how many rows of each.
fn environments(all: &[Loaded]) -> Vec<(Host, usize)> {
    let mut found: Vec<(Host, usize)> = Vec::new();
    for host in all.iter().filter_map(|loaded| loaded.rows.last()).map(|row| &row.host) {
        match found.iter_mut().find(|(own, _)| own == host) {
            Some((_, count)) => *count += 1,
            None => found.push((host.clone(), 1)),
        }
    }
    found
}

fn where_run(all: &[Loaded], scale: Scale) -> Markup {
    let run = all.iter().filter(|loaded| !loaded.rows.is_empty()).count();
    let figures: usize = all.iter().map(|loaded| loaded.rows.len()).sum();
    html! {
        p { (run) " of " (all.len()) " experiments have results at scale " b { (scale.name()) } ": "
            (names::value("", &figures.to_string())) " figures. Times are medians over rounds in which the systems took "
            "turns; beside a claim is the interval in which the median lies with 95 %, by the bootstrap over runs and their "
            "rounds. A time that was taken once is not quoted. Counts are exact." }
        @if scale == Scale::Smoke {
            p class="warning" { "This scale shows that the experiments run. Its sizes are too small for its figures to mean anything." }
        }
        @for (host, count) in environments(all) {
            dl class="facts" {
                dt { "Machine" } dd { (host.host) }
                dt { "Kernel" } dd { (host.kernel) }
                dt { "Compiler" } dd { (host.rustc) }
                dt { "Commit" } dd { code { (host.commit) } }
                dt { "Experiments" } dd { (count) }
            }
        }
    }
}

fn tally(parts: &[JudgedExperiment]) -> Markup {
    let run = parts.iter().filter(|part| !part.loaded.rows.is_empty());
    let (all, others): (Vec<&Judged>, Vec<&Judged>) =
        run.flat_map(|part| &part.judged).partition(|one| one.claim.judge);
    let count = |verdict: ClaimVerdict| all.iter().filter(|one| one.verdict == verdict).count();
    let (alike, little) = (ALIKE * 100.0, LITTLE * 100.0);
    let near = format!(
        "a ratio whose effect, its logarithm, is within {alike} % of the published one, or, where less than \
         {little} % was published, a ratio within {little} %; a count within {alike} %"
    );
    let undecided = format!(
        "a ratio whose interval has both sides of 1 where one was published: no effect beyond the noise; {little} % \
         is taken for none where the trees were called comparable"
    );
    let lines: [(ClaimVerdict, &str); 10] = [
        (
            ClaimVerdict::Met,
            "a count within the distance that the claim sets, or a bar that every round reaches",
        ),
        (ClaimVerdict::Agrees, "the same of a count that has gone through a formula"),
        (ClaimVerdict::Missed, "outside of it, or a bar that no round reaches"),
        (ClaimVerdict::Noise, "a bar that some rounds reach and some do not"),
        (ClaimVerdict::Reproduced, &near),
        (
            ClaimVerdict::SameDirection,
            "a ratio on the same side of 1, but of another size; its share of the effect is said",
        ),
        (ClaimVerdict::Undecided, &undecided),
        (
            ClaimVerdict::Differs,
            "no effect, the opposite one, or one where none was published; a count farther off",
        ),
        (
            ClaimVerdict::Shown,
            "times of another machine, nothing was published, or what was is true of anything",
        ),
        (ClaimVerdict::Unquoted, "not measured, or a time that was taken once"),
    ];
    html! {
        div class="scroll" { table class="tally" {
            caption { (all.len()) " claims of the experiments that were run: what was published, or is asked for, beside ours" }
            tbody { @for (verdict, meaning) in lines { tr {
                td class="num" { (count(verdict)) }
                th scope="row" { (claims::badge(verdict)) }
                td { (meaning) }
            } } }
        } }
        @if !others.is_empty() {
            p class="soft" { (others.len()) " more stand beside the figures of another comparison: shown, not judged, and not counted here." }
        }
    }
}

/// How many published figures of an experiment say no tolerance, and which of those that are comparable
/// is farthest off.
fn inexact(judged: &[Judged]) -> Markup {
    let is_inexact = |one: &&Judged| one.claim.published.is_some() && !is_exact(one);
    let inexact: Vec<&Judged> = judged.iter().filter(is_inexact).collect();
    html! {
        @if inexact.is_empty() { "–" } @else {
            (inexact.len())
            @if let Some((one, off)) = claims::farthest(inexact.into_iter().filter(|one| one.claim.judge)) {
                span class="range" { (off) ": " (prose(&one.claim.what)) }
            }
        }
    }
}

/// Whether a claim says how near ours must be.
fn is_exact(one: &Judged) -> bool {
    one.claim.judge && one.claim.within.is_some()
}

/// How far exact counts are from what they must be, by experiment.
fn acceptance(parts: &[JudgedExperiment]) -> Markup {
    let of: Vec<&JudgedExperiment> =
        parts.iter().filter(|part| part.loaded.experiment.name.starts_with(ACCEPTANCE)).collect();
    html! {
        @if of.is_empty() {
            p class="soft" { "There is no such experiment." }
        } @else {
            div class="scroll" { table class="claims" {
                caption { "Counts that do not depend on the machine: what must be counted within a tolerance, "
                    "and published figures that have none, with the one that is farthest off" }
                thead { tr { th scope="col" { "What" } th scope="col" { "Met" } th scope="col" { "Farthest off" }
                    th scope="col" { "Without a tolerance" } } }
                tbody { @for part in of {
                    @let judged: Vec<&Judged> = part.judged.iter().filter(|one| is_exact(one)).collect();
                    @let met = judged.iter().filter(|one| one.verdict == ClaimVerdict::Met).count();
                    @let missed = judged.iter().filter(|one| one.verdict == ClaimVerdict::Missed).count();
                    @let agree = judged.iter().filter(|one| one.verdict == ClaimVerdict::Agrees).count();
                    @let open = judged.len() - met - missed - agree;
                    @let off = claims::farthest(judged);
                    tr {
                        th scope="row" { a href=(format!("#{}", anchor(&part.loaded.experiment.name))) { (part.loaded.experiment.title) } }
                        td class="num" data-label="Met" {
                            @if part.loaded.rows.is_empty() { "not run" } @else if met + missed + open + agree == 0 { "–" } @else {
                                span class=(if missed > 0 { "badge bad" } else { "badge good" }) { (met) " of " (met + missed) }
                                @if agree > 0 { span class="range" { (agree) " more by a formula" } }
                                @if open > 0 { span class="range" { (open) " not measured" } }
                            }
                        }
                        td class="num" data-label="Farthest off" { @match off { Some((_, off)) => (off), None => "–" } }
                        td data-label="Without a tolerance" { (inexact(&part.judged)) }
                    }
                } }
            } }
        }
    }
}

/// Bars, those that are missed most first.
fn worst<'a, 'b>(
    parts: &'b [JudgedExperiment<'a>],
) -> Vec<(&'b JudgedExperiment<'a>, &'b Judged<'a>, f64)> {
    let mut scored: Vec<_> = parts
        .iter()
        .flat_map(|part| part.judged.iter().map(move |one| (part, one)))
        .filter_map(|(part, one)| Some((part, one, one.score?)))
        .collect();
    scored.sort_by(|a, b| a.2.total_cmp(&b.2));
    scored.truncate(WORST);
    scored
}

fn worst_table(parts: &[JudgedExperiment]) -> Markup {
    let worst = worst(parts);
    html! {
        @if worst.is_empty() {
            p class="soft" { "No bar was measured often enough to be quoted." }
        } @else {
            div class="scroll" { table class="claims" {
                caption { "The results that are farthest from our own bars" }
                thead { tr { th scope="col" { "Bar" } th scope="col" { "Asked" } th scope="col" { "Ours" }
                    th scope="col" { "Reached" } th scope="col" { "Why" } } }
                tbody { @for (part, one, score) in worst { tr data-metric=(one.claim.metric) data-rounds=(one.rounds) {
                    th scope="row" { a href=(format!("#{}", anchor(&part.loaded.experiment.name)))
                        { (prose(one.claim.what.trim_start_matches(BAR))) } }
                    td class="num" data-label="Asked" { (claims::published(one.claim)) }
                    td class="num" data-label="Ours" { (claims::ours(one)) }
                    td class="num" data-label="Reached" { (format!("{:.0} %", score * 100.0)) }
                    td { (claims::badge(one.verdict)) " " (prose(&one.claim.why)) }
                } } }
            } }
        }
    }
}

fn contents(parts: &[JudgedExperiment]) -> Markup {
    html! {
        nav class="contents" aria-label="Contents" {
            h2 { "Contents" }
            ul {
                li { a href="#learnt" { "What was learnt" } }
                li { a href="#losses" { "Which published trees lose data" } }
                li { a href="#summary" { "Summary" } }
            }
            @for (folder, parts) in papers(parts) {
                details open[parts.len() < 16] {
                    summary { a href=(format!("#paper-{}", anchor(folder))) { (names::paper(folder)) } }
                    ul { @for part in parts {
                        @let name = &part.loaded.experiment.name;
                        li { a href=(format!("#{}", anchor(name))) {
                                @if let Some(number) = part.loaded.experiment.number() { b { (number) } " " }
                                (part.loaded.experiment.title) }
                            @if part.loaded.rows.is_empty() { span class="soft" { " (not run)" } } }
                    } }
                }
            }
        }
    }
}

fn summary(all: &[Loaded], parts: &[JudgedExperiment], scale: Scale) -> Markup {
    html! {
        section id="summary" {
            h2 { "Summary" }
            (where_run(all, scale))
            h3 { "Claims" }
            (tally(parts))
            h3 { "Acceptance" }
            (acceptance(parts))
            h3 { "Everleaf and its peers" }
            (peers::table(&peers::matrix(all)))
            h3 { "Worst results" }
            (worst_table(parts))
        }
    }
}

/// The whole page.
pub fn page(all: &[Loaded], scale: Scale) -> Markup {
    let parts = parts(all);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Everleaf: experiments, scale " (scale.name()) }
                // Without one of its own a browser would ask the server for an icon.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) (PreEscaped(plot::STYLE)) }
            }
            body {
                header {
                    h1 { "Everleaf: experiments" }
                    p class="lead" { "What five papers on persistent B+-trees measured and what other stores do, beside what this engine does. "
                        "Published figures have ours beside them and say what becomes of them; where we know why the two differ, the reason is there, too." }
                    p class="print" { "In print there are two plots of each experiment and the verdicts. The page itself has all plots, the reasons, the "
                        "settings and all medians; the CSV files have every figure." }
                }
                section id="learnt" { h2 { "What was learnt" } (findings::list(all)) }
                (contents(&parts))
                main {
                    section id="losses" { h2 { "Which published trees lose data" } (losses::table()) }
                    (summary(all, &parts, scale))
                    @for (folder, parts) in papers(&parts) {
                        section id=(format!("paper-{}", anchor(folder))) {
                            h2 { (names::paper(folder)) }
                            @for part in parts { (section::article(part)) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::plot::chart::tests::row;

    fn experiment(claims: &[&str]) -> Experiment {
        let text = include_str!("../../experiments/circ-tree/fig-7a.toml");
        let mut experiment = Experiment::parse("errata/item-0", text).expect("it is one");
        let claim = |text: &&str| {
            let text = format!("{text}\nwhat = 'w'\nof = {{ system = 'A' }}");
            toml::from_str(&text).expect("a claim")
        };
        experiment.claims = claims.iter().map(claim).collect();
        experiment
    }

    fn of(experiment: &Experiment) -> Loaded<'_> {
        let row = |metric: &str, value: f64| row(&[("system", "A")], 1, metric, value);
        let rows = vec![row("a_lines", 3.0), row("b_lines", 0.5), row("c_lines", 15.0)];
        Loaded { experiment, rows, cells: Vec::new(), rounds: 1 }
    }

    #[test]
    fn acceptance_shows_figures_without_a_tolerance_and_no_infinity() {
        let experiment = experiment(&[
            "published = 3\nwithin = 0.0\nmetric = 'a_lines'",
            "published = 0\nwithin = 0.0\nmetric = 'b_lines'",
            "published = 12\nmetric = 'a_lines'",
            "published = 10\nmetric = 'c_lines'",
            "published = 1\nmetric = 'c_lines'\njudge = false",
            "metric = 'c_lines'",
        ]);
        let loaded = [of(&experiment)];
        let html = acceptance(&parts(&loaded)).into_string();
        assert!(html.contains("1 of 2") && html.contains("0.5\u{a0}lines instead of 0"), "{html}");
        assert!(html.contains(">3<span class=\"range\">75\u{a0}%: w</span>"), "{html}");
        assert!(!html.contains("inf"), "{html}");
    }

    #[test]
    fn what_is_another_comparison_is_not_counted() {
        let experiment = experiment(&[
            "published = 3\nwithin = 0.0\nmetric = 'a_lines'",
            "published = 3\nwithin = 0.0\nmetric = 'a_lines'\njudge = false",
            "published = 9\nmetric = 'a_lines'\njudge = false",
        ]);
        let loaded = [of(&experiment)];
        let html = tally(&parts(&loaded)).into_string();
        assert!(html.contains("1 claims of") && html.contains("2 more"), "{html}");
        let counts: Vec<&str> =
            html.split("<td class=\"num\">").skip(1).map(|rest| &rest[..1]).collect();
        assert_eq!(counts, ["1", "0", "0", "0", "0", "0", "0", "0", "0", "0"], "{html}");
    }
}
