//! The findings, on top of the report: sentences of `experiments/findings.toml`, whose figures are those of the
//! results.

use maud::{Markup, html};
use serde::Deserialize;

use super::part::{self, Loaded, anchor};
use super::prose::prose;
use crate::experiment::Counted;

const FINDINGS: &str = include_str!("../../experiments/findings.toml");

/// How a figure is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Said {
    /// As it is.
    #[default]
    Plain,
    /// A ratio as how many percent less.
    Less,
    /// A ratio as how many percent more.
    More,
}

/// A figure of a sentence.
#[derive(Debug, Deserialize)]
struct FindingFigure {
    #[serde(default, rename = "as")]
    said: Said,
    #[serde(flatten)]
    counted: Counted,
}

/// A figure with as many digits as a sentence bears.
fn short(v: f64) -> String {
    match v.abs() {
        a if a >= 99.5 => format!("{v:.0}"),
        a if a >= 9.95 => format!("{v:.1}"),
        _ => format!("{v:.2}"),
    }
}

/// A sentence; each `{}` in it is one of the figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Finding {
    text: String,
    /// The experiment, or the part of the page, that it leads to.
    link: String,
    #[serde(default)]
    figure: Vec<FindingFigure>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Findings {
    finding: Vec<Finding>,
}

fn read() -> Result<Vec<Finding>, toml::de::Error> {
    Ok(toml::from_str::<Findings>(FINDINGS)?.finding)
}

fn find<'a>(all: &'a [Loaded<'a>], name: &str) -> Option<&'a Loaded<'a>> {
    all.iter().find(|loaded| loaded.experiment.name == name)
}

impl FindingFigure {
    fn text(&self, all: &[Loaded], link: &str) -> Option<String> {
        let name = self.counted.experiment.as_deref().unwrap_or(link);
        let median = part::quoted(find(all, name)?, &self.counted)?.median;
        Some(match self.said {
            Said::Plain => short(median),
            Said::Less => format!("{:.0}\u{a0}%", 100.0 * (1.0 - median)),
            Said::More => format!("{:.0}\u{a0}%", 100.0 * (median - 1.0)),
        })
    }
}

impl Finding {
    /// It with its figures; none if one was not measured.
    fn said(&self, all: &[Loaded]) -> Option<String> {
        let mut parts = self.text.split("{}");
        let mut text = parts.next()?.to_string();
        for (figure, part) in self.figure.iter().zip(parts) {
            text.push_str(&figure.text(all, &self.link)?);
            text.push_str(part);
        }
        Some(text)
    }
}

/// The link to an experiment, by its number, or to a part of the page.
fn leads(all: &[Loaded], link: &str) -> Markup {
    if link.starts_with('#') {
        return html! { a href=(link) { "Table" } };
    }
    let number = find(all, link).and_then(|of| of.experiment.number());
    html! { a href=(format!("#{}", anchor(link))) { (number.unwrap_or("Figures")) } }
}

/// The list; those of which a figure is missing are left out, which is said.
pub fn list(all: &[Loaded]) -> Markup {
    let findings = read().unwrap_or_default();
    let said: Vec<(String, &Finding)> =
        findings.iter().filter_map(|one| Some((one.said(all)?, one))).collect();
    let left = findings.len() - said.len();
    html! {
        ol class="learnt" { @for (text, finding) in &said { li {
            (prose(text)) " "
            (leads(all, &finding.link)) "."
        } } }
        @if left > 0 { p class="soft" { (left) " more were not measured at this scale." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;

    #[test]
    fn each_finding_names_figures_that_there_are() {
        let all = experiment::all(&experiment::root()).expect("experiments");
        let of = |name: &str| all.iter().find(|one| one.name == name).expect(name);
        let findings = read().expect("findings");
        assert!((1..=10).contains(&findings.len()), "ten at most are read");
        for finding in findings {
            if !finding.link.starts_with('#') {
                assert!(!of(&finding.link).title.is_empty());
            }
            assert_eq!(
                finding.text.matches("{}").count(),
                finding.figure.len(),
                "{}",
                finding.text
            );
            for FindingFigure { counted, .. } in &finding.figure {
                let experiment = of(counted.experiment.as_deref().unwrap_or(&finding.link));
                for part in [Some(&counted.of), counted.over.as_ref()].into_iter().flatten() {
                    experiment.one_cell(part, &finding.text).expect("one cell");
                }
            }
        }
    }
}
