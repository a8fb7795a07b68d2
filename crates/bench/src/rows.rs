//! Results: one CSV file an experiment, one row a figure.
//!
//! `RESULTS/SCALE/PAPER/FIGURE.csv` has a column for each parameter, then `seed`, `round`, `metric`,
//! `value`, `host`, `kernel`, `rustc` and `commit`. Rows are appended as rounds end, so a run that is
//! stopped goes on where it was.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::experiment::{Cell, Experiment, Scale};
use crate::host::Host;

/// What follows the parameters.
const AFTER: [&str; 8] = ["seed", "round", "metric", "value", "host", "kernel", "rustc", "commit"];

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Parameters with their values; empty where the cell has none.
    pub parameters: Vec<(String, String)>,
    /// What random choices began with.
    pub seed: u64,
    /// Which round, from 1.
    pub round: u32,
    /// What was measured.
    pub metric: String,
    /// How much.
    pub value: f64,
    /// Where.
    pub host: Host,
}

impl Row {
    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        let of = self.parameters.iter().find(|(own, _)| own == name);
        of.map(|(_, value)| &value[..]).filter(|value| !value.is_empty())
    }
}

/// Where the rows of an experiment are.
pub fn path(results: &Path, experiment: &Experiment, scale: Scale) -> PathBuf {
    results.join(scale.name()).join(format!("{}.csv", experiment.name))
}

/// All rows of an experiment; none if it was never run.
///
/// # Errors
/// The file cannot be read, or is no result.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut reader = csv::Reader::from_path(path).with_context(|| format!("read {path:?}"))?;
    let header = reader.headers()?.clone();
    let parameters = header.len().checked_sub(AFTER.len());
    let parameters = parameters
        .filter(|at| header.iter().skip(*at).eq(AFTER))
        .with_context(|| format!("{path:?} has other columns than a result"))?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.with_context(|| format!("read {path:?}"))?;
        let after = |i: usize| record[parameters + i].to_string();
        let number = |i: usize| after(i).parse::<f64>().with_context(|| format!("{record:?}"));
        let pairs = header.iter().zip(&record).take(parameters);
        rows.push(Row {
            parameters: pairs.map(|(name, value)| (name.into(), value.into())).collect(),
            seed: number(0)? as u64,
            round: number(1)? as u32,
            metric: after(2),
            value: number(3)?,
            host: Host { host: after(4), kernel: after(5), rustc: after(6), commit: after(7) },
        });
    }
    Ok(rows)
}

/// The rows of the newest environment: figures of different machines, compilers or commits are not
/// mixed.
pub fn newest(rows: Vec<Row>) -> Vec<Row> {
    match rows.last().map(|row| row.host.clone()) {
        Some(host) => rows.into_iter().filter(|row| row.host == host).collect(),
        None => rows,
    }
}

/// Appends the rows of an experiment.
pub struct Writer {
    out: csv::Writer<fs::File>,
    parameters: Vec<String>,
    host: Host,
    seed: u64,
    done: HashSet<(Vec<String>, u32)>,
}

impl Writer {
    /// Opens the file, and makes it if it is missing. What it has of this environment and seed counts
    /// as done.
    ///
    /// # Errors
    /// The file cannot be read or written, or has other parameters than the experiment has now.
    pub fn open(path: &Path, parameters: Vec<String>, host: Host, seed: u64) -> Result<Self> {
        let rows = read(path)?;
        let mut done = HashSet::new();
        for row in rows.iter().filter(|row| row.host == host && row.seed == seed) {
            done.insert((row.parameters.iter().map(|(_, v)| v.clone()).collect(), row.round));
        }
        if let Some(row) = rows.first() {
            ensure!(
                row.parameters.iter().map(|(name, _)| name).eq(&parameters),
                "{path:?} has results of other parameters: --fresh starts it anew"
            );
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make {folder:?}"))?;
        }
        let is_new = rows.is_empty();
        let file = fs::OpenOptions::new()
            .create(true)
            .append(!is_new)
            .write(true)
            .truncate(is_new)
            .open(path)
            .with_context(|| format!("write {path:?}"))?;
        let mut out = csv::WriterBuilder::new().has_headers(false).from_writer(file);
        if is_new {
            out.write_record(parameters.iter().map(String::as_str).chain(AFTER))?;
            out.flush()?;
        }
        Ok(Self { out, parameters, host, seed, done })
    }

    fn values(&self, cell: &Cell) -> Vec<String> {
        self.parameters.iter().map(|name| cell.get(name).unwrap_or_default()).collect()
    }

    /// Whether this round of a cell is there already.
    pub fn has(&self, cell: &Cell, round: u32) -> bool {
        self.done.contains(&(self.values(cell), round))
    }

    /// Appends the figures of one round of a cell, all of them or none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, cell: &Cell, round: u32, figures: &[(String, f64)]) -> Result<()> {
        let values = self.values(cell);
        for (metric, value) in figures {
            let Host { host, kernel, rustc, commit } = &self.host;
            let fixed =
                [self.seed.to_string(), round.to_string(), metric.clone(), value.to_string()];
            let fields = values.iter().chain(&fixed).chain([host, kernel, rustc, commit]);
            self.out.write_record(fields)?;
        }
        self.out.flush()?;
        self.done.insert((values, round));
        Ok(())
    }
}
