//! Results: one CSV file an experiment, one row a figure.
//!
//! `RESULTS/SCALE/PAPER/FIGURE.csv` has a column for each parameter, then `seed`, `round`, `metric`,
//! `value`, `host`, `kernel`, `rustc` and `commit`. Rows are appended as rounds end, so a run that is
//! stopped goes on where it was.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::cell::Cell;
use crate::experiment::{Experiment, Scale};
use crate::host::Host;

/// The columns after the parameters.
const AFTER: [&str; 8] = ["seed", "round", "metric", "value", "host", "kernel", "rustc", "commit"];

/// Which results a command is about.
#[derive(clap::Args)]
pub struct At {
    /// How large
    #[arg(long, value_enum, default_value = "default")]
    pub scale: Scale,
    /// Folder of results
    #[arg(long, default_value = "results")]
    pub results: PathBuf,
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Parameters with their values; empty where the cell has none.
    pub parameters: Vec<(String, String)>,
    /// The seed of random choices.
    pub seed: u64,
    /// Which round, from 1.
    pub round: u32,
    /// The metric that was measured.
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
    match fs::read(path) {
        Ok(bytes) => parse(&bytes).with_context(|| format!("read {path:?}")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("read {path:?}")),
    }
}

/// The metric at the end of each round: without it the round was cut off.
const END: &str = "figures_count";

/// A file without the round that a kill or a full disk has cut off at its end: the header, and what
/// comes before the last end of a round.
fn whole(bytes: &[u8]) -> &[u8] {
    let mark = format!(",{END},");
    let (mut at, mut end) = (0, 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        let is_end = line.windows(mark.len()).any(|part| part == mark.as_bytes());
        if line.ends_with(b"\n") && (end == 0 || is_end) {
            end = at;
        }
    }
    &bytes[..end]
}

fn parse(bytes: &[u8]) -> Result<Vec<Row>> {
    let bytes = whole(bytes);
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = csv::Reader::from_reader(bytes);
    let header = reader.headers()?.clone();
    let parameters = header.len().checked_sub(AFTER.len());
    let parameters = parameters
        .filter(|at| header.iter().skip(*at).eq(AFTER))
        .context("it has other columns than a result")?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record?;
        let after = |i: usize| &record[parameters + i];
        let wrong = || format!("no result: {record:?}");
        let pairs = header.iter().zip(&record).take(parameters);
        rows.push(Row {
            parameters: pairs.map(|(name, value)| (name.into(), value.into())).collect(),
            seed: after(0).parse().with_context(wrong)?,
            round: after(1).parse().with_context(wrong)?,
            metric: after(2).into(),
            value: after(3).parse().with_context(wrong)?,
            host: Host {
                host: after(4).into(),
                kernel: after(5).into(),
                rustc: after(6).into(),
                commit: after(7).into(),
            },
        });
    }
    Ok(rows)
}

/// The rows of the newest environment and seed: figures of different machines, compilers, commits or
/// seeds are not mixed. Without the marks at the ends of rounds.
pub fn newest(rows: Vec<Row>) -> Vec<Row> {
    let Some((host, seed)) = rows.last().map(|row| (row.host.clone(), row.seed)) else {
        return rows;
    };
    let is_of = |row: &Row| row.host == host && row.seed == seed && row.metric != END;
    rows.into_iter().filter(is_of).collect()
}

/// Appends the rows of an experiment.
pub struct RowWriter {
    file: fs::File,
    parameters: Vec<String>,
    host: Host,
    seed: u64,
    done: HashSet<(Vec<String>, u32)>,
}

/// Records as lines.
fn lines<T: AsRef<[u8]>>(records: impl IntoIterator<Item = Vec<T>>) -> Result<Vec<u8>> {
    let mut out = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    for record in records {
        out.write_record(record)?;
    }
    Ok(out.into_inner().map_err(|error| error.into_error())?)
}

impl RowWriter {
    /// Opens the file, and makes it if it is missing. Rounds in it of this environment and seed count
    /// as done. A round at its end that a kill cut off is removed.
    ///
    /// # Errors
    /// The file cannot be read or written, or has other parameters than the experiment has now.
    pub fn open(path: &Path, parameters: Vec<String>, host: Host, seed: u64) -> Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make {folder:?}"))?;
        }
        let mut options = fs::OpenOptions::new();
        let open = options.create(true).read(true).append(true).open(path);
        let mut file = open.with_context(|| format!("write {path:?}"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let rows = parse(&bytes).with_context(|| format!("read {path:?}"))?;
        file.set_len(whole(&bytes).len() as u64)?;
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
        if whole(&bytes).is_empty() {
            let header = parameters.iter().map(String::as_str).chain(AFTER).collect();
            file.write_all(&lines::<&str>([header])?)?;
        }
        Ok(Self { file, parameters, host, seed, done })
    }

    fn values(&self, cell: &Cell) -> Vec<String> {
        self.parameters.iter().map(|name| cell.get(name).unwrap_or_default()).collect()
    }

    /// Whether this round of a cell is there already.
    pub fn has(&self, cell: &Cell, round: u32) -> bool {
        self.done.contains(&(self.values(cell), round))
    }

    /// Appends the figures of one round of a cell by one write, and their number. A round without that
    /// number does not count as done.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, cell: &Cell, round: u32, figures: &[(String, f64)]) -> Result<()> {
        let values = self.values(cell);
        let end = (END.to_string(), figures.len() as f64);
        let records = figures.iter().chain([&end]).map(|(metric, value)| {
            let Host { host, kernel, rustc, commit } = &self.host;
            let fixed =
                [self.seed.to_string(), round.to_string(), metric.clone(), value.to_string()];
            let host = [host, kernel, rustc, commit].map(Clone::clone);
            values.iter().cloned().chain(fixed).chain(host).collect()
        });
        self.file.write_all(&lines::<String>(records)?)?;
        self.done.insert((values, round));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(system: &str) -> Cell {
        let mut table = toml::Table::new();
        table.insert("system".into(), system.into());
        Cell(table)
    }

    fn host(commit: &str) -> Host {
        let text = |text: &str| text.to_string();
        Host { host: text("a, b"), kernel: text("k"), rustc: text("r"), commit: commit.into() }
    }

    fn open(path: &Path, commit: &str, seed: u64) -> RowWriter {
        RowWriter::open(path, vec!["system".into()], host(commit), seed).expect("it opens")
    }

    fn figures() -> Vec<(String, f64)> {
        vec![("get_kops".into(), 1.5), ("get_p99_ns".into(), 7.0)]
    }

    #[test]
    fn what_is_there_of_the_same_environment_and_seed_is_done() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("paper/figure.csv");
        assert_eq!(read(&path).expect("none"), []);
        let seed = u64::MAX - 1;
        let mut writer = open(&path, "one", seed);
        writer.add(&cell("x"), 1, &figures()).expect("room");
        assert!(writer.has(&cell("x"), 1) && !writer.has(&cell("x"), 2));
        let again = open(&path, "one", seed);
        assert!(again.has(&cell("x"), 1) && !again.has(&cell("y"), 1));
        assert!(!open(&path, "two", seed).has(&cell("x"), 1), "another commit");
        assert!(!open(&path, "one", 3).has(&cell("x"), 1), "another seed");
        let other = RowWriter::open(&path, vec!["slots".into()], host("one"), seed);
        assert!(other.is_err(), "other parameters");
    }

    #[test]
    fn environments_and_seeds_are_not_mixed() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("figure.csv");
        for (commit, seed) in [("one", 1), ("two", 1), ("two", 2)] {
            let mut writer = open(&path, commit, seed);
            writer.add(&cell("x"), 1, &figures()).expect("room");
        }
        let rows = newest(read(&path).expect("results"));
        assert_eq!(rows.len(), 2, "without the mark");
        assert!(rows.iter().all(|row| row.host.commit == "two" && row.seed == 2));
    }

    #[test]
    fn a_round_that_was_cut_off_is_measured_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("figure.csv");
        let mut writer = open(&path, "one", 1);
        writer.add(&cell("x"), 1, &figures()).expect("room");
        let first = fs::metadata(&path).expect("there").len();
        writer.add(&cell("y"), 1, &figures()).expect("room");
        let all = fs::read(&path).expect("there");
        for len in 0..all.len() {
            fs::write(&path, &all[..len]).expect("room");
            let read = newest(read(&path).expect("what is whole can be read"));
            let mut writer = open(&path, "one", 1);
            assert_eq!(writer.has(&cell("x"), 1), len as u64 >= first, "{len}");
            assert!(!writer.has(&cell("y"), 1), "{len}");
            assert_eq!(read.len(), if len as u64 >= first { 2 } else { 0 }, "{len}");
            writer.add(&cell("y"), 1, &figures()).expect("room");
            assert!(open(&path, "one", 1).has(&cell("y"), 1), "{len}");
        }
    }

    #[test]
    fn a_file_that_is_no_result_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("figure.csv");
        for text in [
            "a,b\n1,2\n",
            "system,seed,round,metric,value,host,kernel,rustc,commit\nx,1,one,figures_count,1,a,b,c,d\n",
        ] {
            fs::write(&path, text).expect("room");
            assert!(read(&path).is_err(), "{text}");
            assert!(RowWriter::open(&path, vec![], host("one"), 1).is_err(), "{text}");
        }
    }
}
