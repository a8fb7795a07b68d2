//! Whether we draw as YCSB does: counts that its own code drew beside counts of ours.
//!
//! Both are samples, so a cell of the one is never that of the other. The sum over cells of the
//! squared differences, each in units of its own variance, is χ² if both were drawn from the same
//! distribution; [`Agreement::z`] says how many standard deviations above its mean it is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::core::{Core, SCAN_MAX, YcsbKind, YcsbOp};
use super::pick::Picker;
use super::{FIELDS, name};

/// The draws that YCSB's core made once, for the test.
#[cfg(test)]
const REFERENCE: &str = include_str!("../../ycsb/reference.txt");

/// Equal ranges of items.
const RANGES: usize = 100;

/// Records that workloads begin with; newer ones are not counted (see `Histogram.java`).
const RECORDS: usize = 1000;

/// How far apart two samples of one distribution hardly ever are: once in ten thousand times.
const FAR: f64 = 3.72;

/// The file that `research/bench/ycsb/check.sh` has YCSB write.
#[derive(clap::Args)]
pub struct Args {
    /// The output of `Histogram.java`
    drawn: PathBuf,
    /// The seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Counts by name and by what is counted, and the words of each line.
struct Drawn<'a>(Vec<Vec<&'a str>>);

impl<'a> Drawn<'a> {
    fn parse(text: &'a str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.map(|line| line.split(' ').collect()).collect())
    }

    fn number(&self, of: &str) -> Result<u64> {
        let line = self.0.iter().find(|line| line[0] == of && line.len() == 2);
        Ok(line.with_context(|| format!("no line {of}"))?[1].parse()?)
    }
}

/// How alike two samples are.
struct Agreement {
    cells: usize,
    chi: f64,
    z: f64,
}

/// Compares two samples, cell by cell; `all`: how many were drawn, of which those in no cell are
/// one more cell.
fn compare(theirs: &[u64], ours: &[u64], all: [u64; 2]) -> Agreement {
    let rest = |counts: &[u64], all: u64| all - counts.iter().sum::<u64>();
    let mut pairs: Vec<[u64; 2]> = theirs.iter().zip(ours).map(|(a, b)| [*a, *b]).collect();
    pairs.push([rest(theirs, all[0]), rest(ours, all[1])]);
    pairs.retain(|pair| pair[0] + pair[1] > 0);
    let scale = (all[1] as f64 / all[0] as f64).sqrt();
    let chi: f64 = pairs
        .iter()
        .map(|[a, b]| (*a as f64 * scale - *b as f64 / scale).powi(2) / (a + b) as f64)
        .sum();
    // Wilson and Hilferty's approximation: the cube root of χ²/n is almost normal.
    let n = (pairs.len().max(2) - 1) as f64;
    let spread = 2.0 / (9.0 * n);
    let z = ((chi / n).cbrt() - (1.0 - spread)) / spread.sqrt();
    Agreement { cells: pairs.len(), chi, z }
}

/// Our draws: how often each item, and of a workload how often each of other things.
struct Ours {
    items: Vec<u64>,
    kinds: BTreeMap<&'static str, u64>,
    fields: Vec<u64>,
    lengths: Vec<u64>,
}

impl Ours {
    fn new(items: u64) -> Self {
        let items = vec![0; items as usize];
        let (fields, lengths) = (vec![0; FIELDS], vec![0; SCAN_MAX as usize + 1]);
        Self { items, kinds: BTreeMap::new(), fields, lengths }
    }

    /// Picks of one distribution, over so many items.
    fn picks(distribution: &str, items: u64, picks: u64, seed: u64) -> Result<Self> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut picker = match distribution {
            "scrambled" => Picker::scrambled(items),
            "zipfian" => Picker::zipfian(items),
            "uniform" => Picker::Uniform(items),
            "latest" => Picker::latest(items),
            other => bail!("no distribution is called {other:?}"),
        };
        let by_age = distribution == "latest";
        let mut ours = Self::new(if by_age { items + picks / 20 + 1 } else { items });
        let mut there = items;
        for i in 0..picks {
            there += u64::from(i % 20 == 0 && by_age);
            let item = picker.pick(there, &mut rng);
            ours.items[if by_age { there - 1 - item } else { item } as usize] += 1;
        }
        Ok(ours)
    }

    /// Operations of one workload.
    fn operations(core: Core, operations: u64, seed: u64) -> Result<Self> {
        let mut ours = Self::new(RECORDS as u64);
        let mut there = RECORDS;
        for YcsbOp { kind, extra, item } in core.stream(RECORDS as u64, operations, seed)? {
            let parts = match kind {
                YcsbKind::Modify => vec!["read", "update"],
                other => vec![other.name()],
            };
            parts.iter().for_each(|part| *ours.kinds.entry(part).or_default() += 1);
            match kind {
                YcsbKind::Insert => {
                    there += 1;
                    continue;
                }
                YcsbKind::Scan => ours.lengths[usize::from(extra)] += 1,
                YcsbKind::Update | YcsbKind::Modify => ours.fields[usize::from(extra)] += 1,
                YcsbKind::Read => {}
            }
            let item = item as usize;
            let at = if core == Core::D { there - 1 - item } else { item };
            ours.items.get_mut(at).into_iter().for_each(|count| *count += 1);
        }
        Ok(ours)
    }

    /// Our counts of what a line counts, and how many are in no cell of it.
    fn counts(&self, what: &str, things: &[&str]) -> Result<Vec<u64>> {
        Ok(match what {
            "hot" => {
                let items: Vec<usize> =
                    things.iter().map(|thing| thing.parse()).collect::<Result<_, _>>()?;
                items.iter().map(|item| self.items[*item]).collect()
            }
            "range" => {
                let mut ranges = vec![0; RANGES];
                for (i, count) in self.items.iter().enumerate() {
                    ranges[i * RANGES / self.items.len()] += count;
                }
                ranges
            }
            "field" => self.fields.clone(),
            "length" => self.lengths.clone(),
            "kind" => {
                things.iter().map(|kind| self.kinds.get(kind).copied().unwrap_or(0)).collect()
            }
            other => bail!("what is {other:?}"),
        })
    }

    /// How many were counted.
    fn all(&self, what: &str) -> u64 {
        match what {
            "field" => self.fields.iter().sum(),
            "length" => self.lengths.iter().sum(),
            "kind" => self.kinds.values().sum(),
            _ => self.items.iter().sum(),
        }
    }
}

/// Our draws for a line of that name.
fn ours(drawn: &Drawn<'_>, of: &str, seed: u64) -> Result<Ours> {
    let (kind, rest) = of.split_once('-').with_context(|| format!("what is {of:?}"))?;
    match kind {
        "workload" => Ours::operations(rest.parse()?, drawn.number("operations")?, seed),
        _ => Ours::picks(kind, rest.parse()?, drawn.number("picks")?, seed),
    }
}

/// Compares all that YCSB drew with what we draw: a line and a verdict for each.
fn verdicts(text: &str, seed: u64) -> Result<Vec<(String, Agreement)>> {
    let drawn = Drawn::parse(text);
    let mut found = Vec::new();
    let mut own: Option<(&str, Ours)> = None;
    // "range" has all that were drawn of a name; "hot" only some of them.
    let mut all = BTreeMap::new();
    for line in drawn.0.iter().filter(|line| line.len() > 2 && line[1] == "range") {
        let counts: Vec<u64> = line[2..].iter().map(|c| c.parse()).collect::<Result<_, _>>()?;
        all.insert(line[0], counts.iter().sum::<u64>());
    }
    for line in &drawn.0 {
        let [of, what, cells @ ..] = &line[..] else { continue };
        if *of == "names" {
            for pair in &line[1..] {
                let (number, key) = pair.split_once(':').context("a number and a name")?;
                ensure!(name(number.parse()?) == key, "the key of {number} is {key} in YCSB");
            }
            continue;
        }
        let Some(cells) = Some(cells).filter(|cells| !cells.is_empty()) else { continue };
        let split = |cell: &&'_ str| -> Result<(String, u64)> {
            let (thing, count) = cell.split_once(':').unwrap_or(("", cell));
            Ok((thing.to_string(), count.parse()?))
        };
        let cells: Vec<(String, u64)> = cells.iter().map(split).collect::<Result<_>>()?;
        if own.as_ref().is_none_or(|(own, _)| own != of) {
            own = Some((of, ours(&drawn, of, seed)?));
        }
        let (_, own) = own.as_ref().expect("just drawn");
        let things: Vec<&str> = cells.iter().map(|(thing, _)| &thing[..]).collect();
        let theirs: Vec<u64> = cells.iter().map(|(_, count)| *count).collect();
        let counts = own.counts(what, &things)?;
        ensure!(counts.len() == theirs.len(), "{of} {what}: {} cells", theirs.len());
        let in_all = match *what {
            "hot" => *all.get(of).with_context(|| format!("no ranges of {of}"))?,
            _ => theirs.iter().sum(),
        };
        let verdict = compare(&theirs, &counts, [in_all, own.all(what)]);
        found.push((format!("{of} {what}"), verdict));
    }
    ensure!(!found.is_empty(), "nothing to compare with");
    Ok(found)
}

/// Prints how alike we draw.
///
/// # Errors
/// The file cannot be read or is none; something differs by more than chance.
pub fn run(args: &Args) -> Result<()> {
    let text =
        std::fs::read_to_string(&args.drawn).with_context(|| format!("read {:?}", args.drawn))?;
    text.lines().take_while(|line| line.starts_with('#')).for_each(|line| println!("{line}"));
    let verdicts = verdicts(&text, args.seed)?;
    println!("{:<28} {:>6} {:>9} {:>7}", "", "cells", "chi2", "sigma");
    for (of, Agreement { cells, chi, z }) in &verdicts {
        println!("{of:<28} {cells:>6} {chi:>9.1} {z:>7.2}");
    }
    let far: Vec<&str> =
        verdicts.iter().filter(|(_, v)| v.z > FAR).map(|(of, _)| &of[..]).collect();
    ensure!(far.is_empty(), "drawn otherwise than by YCSB: {}", far.join(", "));
    println!(
        "{} comparisons, none further than {FAR} sigma; all names of keys equal",
        verdicts.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_draw_as_ycsb_does() {
        for (of, verdict) in verdicts(REFERENCE, 1).expect("a reference") {
            assert!(verdict.z < FAR, "{of}: χ² {} over {} cells", verdict.chi, verdict.cells);
        }
    }

    /// The comparison is worth something: it sees what is close and is not YCSB's.
    #[test]
    fn a_textbook_zipfian_is_told_from_that_of_ycsb() {
        use rand_distr::{Distribution, Zipf};
        let drawn = Drawn::parse(REFERENCE);
        let line = drawn.0.iter().find(|line| line[..2] == ["zipfian-1000", "hot"]).expect("there");
        let theirs: Vec<u64> = line[2..]
            .iter()
            .map(|cell| cell.split_once(':').expect("a pair").1.parse().expect("a count"))
            .collect();
        let picks = drawn.number("picks").expect("there");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let zipf = Zipf::new(1000.0, 0.99).expect("valid");
        let mut ours = vec![0; 1000];
        (0..picks).for_each(|_| ours[zipf.sample(&mut rng) as usize - 1] += 1);
        assert!(compare(&theirs, &ours[..100], [picks; 2]).z > 10.0);
    }

    #[test]
    fn chi_is_what_it_should_be_for_known_counts() {
        let verdict = compare(&[10, 20], &[20, 10], [30, 30]);
        assert!((verdict.chi - 20.0 / 3.0).abs() < 1e-9 && verdict.cells == 2);
        let same = compare(&[10, 20], &[20, 40], [30, 60]);
        assert!(same.chi.abs() < 1e-9 && same.z < 0.0);
    }
}
