//! Experiments as data: a TOML file says what is measured, in which settings, how it is drawn, and
//! what was published.
//!
//! `experiments/PAPER/FIGURE.toml` is the experiment `PAPER/FIGURE`. Its grids are tables of
//! parameters; a parameter that is a list is varied, and every combination is a [cell](Cell). A scale
//! replaces parameters of all grids. See `experiments/README.md`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use toml::{Table, Value};

use crate::cell::{Cell, fits, shown};
use crate::metric;
use crate::plot::names;

/// How large a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scale {
    /// Seconds for all; shows that an experiment runs. Its times mean nothing.
    Smoke,
    /// Hours for all, on two cores.
    Default,
    /// The sizes of the papers.
    Paper,
}

impl Scale {
    /// Its name in experiments, results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Default => "default",
            Self::Paper => "paper",
        }
    }
}

/// The shape of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Groups of bars, one bar a series.
    Bars,
    /// Lines over a numeric axis.
    Lines,
}

/// One plot.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The text above it.
    pub title: String,
    /// The metric on the y axis.
    pub metric: String,
    /// The parameter on the x axis.
    pub x: String,
    /// The parameter that tells lines or bars apart.
    pub series: String,
    /// Its shape.
    pub form: Form,
    /// Which axes are logarithmic: none, `x`, `y` or `xy`.
    #[serde(default)]
    pub log: String,
    /// Only cells with these parameters.
    #[serde(default, rename = "where")]
    pub only: Table,
    /// The series that the others are divided by, within each round; absolute figures without one.
    pub over: Option<String>,
}

/// A published figure: one number, or the two ends of a range.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// One number.
    One(f64),
    /// From, to.
    Range([f64; 2]),
}

/// A claim that somebody published, and which of our figures stands beside it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The figure in words.
    pub what: String,
    /// The published figure; none where only ours is of interest.
    pub published: Option<Published>,
    /// The metric that is compared.
    pub metric: String,
    /// The parameters of the cell whose figure it is. A list makes a claim for each of its values.
    pub of: Table,
    /// The parameters of the cell that it is divided by; without them it is absolute.
    pub over: Option<Table>,
    /// The metric of that cell, if it is another.
    pub over_metric: Option<String>,
    /// Relative distance within which ours counts as the published one, for exact figures.
    pub within: Option<f64>,
    /// The formula that a count goes through before it is compared; such a figure is not met, but agrees.
    #[serde(default)]
    pub formula: String,
    /// Counts that say why, of this experiment or another.
    #[serde(default)]
    pub counted: Vec<Counted>,
    /// Why ours is another, as far as we guess.
    #[serde(default)]
    pub conjecture: String,
    /// Whether the two are the same comparison; if not, both are shown and not judged.
    #[serde(default = "yes")]
    pub judge: bool,
    /// Why ours is not the published one, where it is not.
    #[serde(default)]
    pub why: String,
}

/// A figure of the results that is quoted in a text.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// The figure in words; nothing in a text that has a place for it.
    #[serde(default)]
    pub what: String,
    /// The experiment that it is of, if it is another one.
    #[serde(rename = "in")]
    pub experiment: Option<String>,
    /// The metric.
    pub metric: String,
    /// The parameters of the cell whose figure it is.
    pub of: Table,
    /// The parameters of the cell that it is divided by; without them it is absolute.
    pub over: Option<Table>,
    /// The metric of that cell, if it is another.
    pub over_metric: Option<String>,
}

fn yes() -> bool {
    true
}

/// How large a scale is: parameters that replace those of the grids, and the number of rounds.
#[derive(Debug, Clone, Deserialize)]
pub struct Size {
    /// Rounds; times are medians over them.
    pub rounds: u32,
    /// Parameters that replace those of all grids.
    #[serde(flatten)]
    pub replaced: Table,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scales {
    smoke: Size,
    default: Size,
    /// As `default` if absent.
    paper: Option<Size>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    title: String,
    source: String,
    about: String,
    #[serde(default)]
    absent: Vec<String>,
    #[serde(default)]
    notes: Vec<String>,
    measure: String,
    grid: Vec<Table>,
    scale: Scales,
    #[serde(default)]
    plot: Vec<Plot>,
    #[serde(default)]
    claim: Vec<Claim>,
}

/// One experiment.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// `PAPER/FIGURE`.
    pub name: String,
    /// The experiment in a few words.
    pub title: String,
    /// Where it was published: paper, figure, section.
    pub source: String,
    /// A description: what is measured and how, and what we do otherwise.
    pub about: String,
    /// Systems of the source that are not in the workspace.
    pub absent: Vec<String>,
    /// Facts that a reader of our figures should know: causes, limits.
    pub notes: Vec<String>,
    /// The kind of measurement.
    pub measure: String,
    grids: Vec<Table>,
    scales: Scales,
    /// Its plots.
    pub plots: Vec<Plot>,
    /// Published figures beside ours.
    pub claims: Vec<Claim>,
}

/// All combinations of a grid's lists. The first parameter varies slowest.
fn combinations(grid: &Table) -> Vec<Cell> {
    let mut cells = vec![Table::new()];
    for (name, value) in grid {
        let values = match value {
            Value::Array(values) => values.clone(),
            one => vec![one.clone()],
        };
        cells = cells
            .iter()
            .flat_map(|cell| {
                values.iter().map(move |value| {
                    let mut cell = cell.clone();
                    cell.insert(name.clone(), value.clone());
                    cell
                })
            })
            .collect();
    }
    cells.into_iter().map(Cell).collect()
}

/// A claim for each combination of the lists in `of`: the values follow its words, and are those of
/// `over` where that has none of its own.
fn expanded(claim: &Claim) -> Vec<Claim> {
    let lists: Vec<&String> =
        claim.of.iter().filter(|(_, value)| value.is_array()).map(|(name, _)| name).collect();
    let one = |cell: Cell| {
        let mut one = claim.clone();
        for name in &lists {
            let Some(value) = cell.0.get(*name) else { continue };
            one.what += &format!(", {}", names::labelled(name, &shown(value)));
            if let Some(over) = &mut one.over {
                over.entry(*name).or_insert(value.clone());
            }
        }
        Claim { of: cell.0, ..one }
    };
    combinations(&claim.of).into_iter().map(one).collect()
}

impl Experiment {
    /// Reads one experiment.
    ///
    /// # Errors
    /// The file cannot be read; what it says is no experiment, or names what there is not.
    pub fn read(root: &Path, path: &Path) -> Result<Self> {
        let name = path.strip_prefix(root).unwrap_or(path).with_extension("");
        let name = name.to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(path).with_context(|| format!("read {path:?}"))?;
        Self::parse(&name, &text).with_context(|| format!("experiment {name}"))
    }

    /// Reads an experiment from its text.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let Text { title, source, about, absent, notes, measure, grid, scale, plot, claim } =
            toml::from_str(text)?;
        let all = Self {
            name: name.into(),
            title,
            source,
            about,
            absent,
            notes,
            measure,
            grids: grid,
            scales: scale,
            plots: plot,
            claims: claim.iter().flat_map(expanded).collect(),
        };
        all.validate()?;
        Ok(all)
    }

    fn size(&self, scale: Scale) -> &Size {
        match scale {
            Scale::Smoke => &self.scales.smoke,
            Scale::Default => &self.scales.default,
            Scale::Paper => self.scales.paper.as_ref().unwrap_or(&self.scales.default),
        }
    }

    /// How often each cell is measured at a scale.
    pub fn rounds(&self, scale: Scale) -> u32 {
        self.size(scale).rounds
    }

    /// All settings at a scale, in the order of the file.
    pub fn cells(&self, scale: Scale) -> Vec<Cell> {
        let replaced = &self.size(scale).replaced;
        let mut cells: Vec<Cell> = Vec::new();
        for grid in &self.grids {
            let mut grid = grid.clone();
            for (name, value) in replaced {
                if grid.contains_key(name) {
                    grid.insert(name.clone(), value.clone());
                }
            }
            // A scale may make two grids alike.
            for cell in combinations(&grid) {
                if !cells.contains(&cell) {
                    cells.push(cell);
                }
            }
        }
        cells
    }

    /// The parameters of all cells at a scale, each once, in the order of their first appearance.
    pub fn parameters(&self, scale: Scale) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for cell in self.cells(scale) {
            for name in
                cell.0.keys().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>()
            {
                names.push(name);
            }
        }
        names
    }

    fn has(&self, parameter: &str) -> bool {
        self.grids.iter().any(|grid| grid.contains_key(parameter))
    }

    fn validate(&self) -> Result<()> {
        ensure!(!self.grids.is_empty(), "no grid");
        for scale in [Scale::Smoke, Scale::Default, Scale::Paper] {
            let size = self.size(scale);
            ensure!(size.rounds > 0, "no rounds at scale {}", scale.name());
            for name in size.replaced.keys() {
                ensure!(
                    self.has(name),
                    "scale {} replaces {name}, which no grid has",
                    scale.name()
                );
            }
            for cell in self.cells(scale) {
                crate::measure::check(&self.measure, &cell).with_context(|| cell.line())?;
            }
        }
        for plot in &self.plots {
            for name in [&plot.x, &plot.series].into_iter().chain(plot.only.keys()) {
                ensure!(self.has(name), "a plot has {name}, which no grid has");
            }
            metric::unit(&plot.metric)?;
            ensure!(["", "x", "y", "xy"].contains(&&plot.log[..]), "log is x, y or xy");
        }
        for claim in &self.claims {
            let reasons = claim.counted.iter().filter(|one| one.experiment.is_none());
            for part in reasons.flat_map(|one| [Some(&one.of), one.over.as_ref()]).flatten() {
                self.one_cell(part, &claim.what)?;
            }
            for name in [Some(&claim.metric), claim.over_metric.as_ref()].into_iter().flatten() {
                metric::unit(name)?;
            }
            for part in [Some(&claim.of), claim.over.as_ref()].into_iter().flatten() {
                self.one_cell(part, &claim.what)?;
            }
        }
        Ok(())
    }

    /// Checks that parameters name one cell.
    ///
    /// # Errors
    /// They name none, or several; `what` is of them.
    pub fn one_cell(&self, part: &Table, what: &str) -> Result<()> {
        let found = |scale: Scale| {
            let cells = self.cells(scale);
            cells.iter().filter(|cell| fits(part, |name| cell.get(name))).count()
        };
        let most = [Scale::Smoke, Scale::Default, Scale::Paper].map(found).into_iter().max();
        ensure!(most == Some(1), "{most:?} cells are what {what:?} is of: {part}");
        Ok(())
    }

    /// The number that its source gives it: `Figure 7a`, `Table 3`; none if it has none.
    pub fn number(&self) -> Option<&str> {
        number(&self.source)
    }
}

/// The first figure, table or item that a source names.
fn number(source: &str) -> Option<&str> {
    let words = ["Figure ", "Table ", "item "];
    let (at, word) = words
        .iter()
        .filter_map(|word| Some((source.find(word)?, word)))
        .min_by_key(|(at, _)| *at)?;
    let rest = &source[at..];
    let behind = &rest[word.len()..];
    let is_end = |c: char| !c.is_ascii_alphanumeric() && !"()-".contains(c);
    Some(&rest[..word.len() + behind.find(is_end).unwrap_or(behind.len())])
}

/// Where the experiments of this checkout are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments")
}

/// All experiments below a folder, by name.
///
/// # Errors
/// As [`Experiment::read`].
pub fn all(root: &Path) -> Result<Vec<Experiment>> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root).with_context(|| format!("read {root:?}"))? {
        let folder = folder?.path();
        if !folder.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&folder)? {
            let file = file?.path();
            if file.extension().is_some_and(|e| e == "toml") {
                found.push(Experiment::read(root, &file)?);
            }
        }
    }
    found.sort_by_key(|experiment| natural(&experiment.name));
    if found.is_empty() {
        bail!("no experiments in {root:?}");
    }
    Ok(found)
}

/// A name with its numbers padded, so that `fig-10` comes after `fig-9`.
fn natural(name: &str) -> String {
    let mut out = String::new();
    let mut digits = String::new();
    for c in name.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
        } else {
            if !digits.is_empty() {
                out.push_str(&format!("{:0>6}", std::mem::take(&mut digits)));
            }
            out.push(c);
        }
    }
    out
}

/// The experiments that a pattern names: all, a paper, or one; a part of a name will do.
pub fn matching<'a>(all: &'a [Experiment], patterns: &[String]) -> Result<Vec<&'a Experiment>> {
    let mut found = Vec::new();
    for experiment in all {
        if patterns.iter().any(|p| p == "all" || experiment.name.contains(&p[..])) {
            found.push(experiment);
        }
    }
    for pattern in patterns.iter().filter(|p| *p != "all") {
        ensure!(
            all.iter().any(|e| e.name.contains(&pattern[..])),
            "no experiment is called {pattern:?}: `list` shows them"
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_numbers_of_their_sources() {
        for (source, of) in [
            ("Circ-Tree (journal), Figure 7a, §6.2", Some("Figure 7a")),
            ("Sentinel Array, Figure 4(a) and §IV", Some("Figure 4(a)")),
            ("Circ-Tree, Table 1, §6.5; Figure 2", Some("Table 1")),
            ("Acceptance table of docs/PAPERS.md, item 5; §3.3", Some("item 5")),
            ("Circ-Tree, Figure 10a-c", Some("Figure 10a-c")),
            ("a question of our own", None),
        ] {
            assert_eq!(number(source), of);
        }
    }

    #[test]
    fn a_list_makes_a_claim_of_each_value_for_both_sides() {
        let text = "what = 'bar: W2'\npublished = 2\nmetric = 'get_kops'\n\
                    of = { system = 'a', picks = ['x', 'y'], threads = [1, 2] }\n\
                    over = { system = 'b', threads = 1 }";
        let claims = expanded(&toml::from_str(text).expect("a claim"));
        let of = |claim: &Claim| {
            let over = claim.over.clone().expect("it has one");
            (claim.what.clone(), Cell(claim.of.clone()).line(), Cell(over).line())
        };
        assert_eq!(claims.len(), 4);
        assert_eq!(
            of(&claims[3]),
            (
                "bar: W2, y, threads 2".into(),
                "system=a picks=y threads=2".into(),
                "system=b threads=1 picks=y".into()
            )
        );
    }
}
