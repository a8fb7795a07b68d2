//! The kinds of measurement. Each is a struct of parameters, read from a cell of an experiment, and
//! what it does with them.

mod apart;
mod backup;
mod bound;
mod child;
mod drain;
mod durabilities;
mod emulation;
mod endurance;
mod fill;
mod group;
pub mod kind;
mod lag;
mod large;
mod leaf;
mod mixed;
mod node;
mod nodes;
mod open_loop;
mod parts;
pub mod phase;
mod range;
mod read_model;
mod reads;
mod rebuild;
mod recover;
mod resume;
mod scan;
mod sizes;
mod space;
pub mod store;
mod stream;
mod tpcc;
mod writers;
mod written;
mod ycsb;

use anyhow::{Result, bail};

use self::kind::{Context, Figures, Measure};
use crate::cell::Cell;
use crate::medium::MediumName;

fn read<M: Measure>(cell: &Cell) -> Result<M> {
    Ok(cell.0.clone().try_into()?)
}

macro_rules! kinds {
    ($($name:literal => $kind:ty,)*) => {
        /// Whether a cell is one that this kind can measure.
        ///
        /// # Errors
        /// There is no such kind, or it has other parameters, or refuses them.
        pub fn check(kind: &str, cell: &Cell) -> Result<()> {
            match kind {
                $($name => read::<$kind>(cell)?.check(),)*
                _ => unknown(kind),
            }
        }

        /// Names what this program or machine lacks to measure a cell.
        ///
        /// # Errors
        /// As [`check`].
        pub fn lacks(kind: &str, cell: &Cell, context: &Context) -> Result<Option<String>> {
            let medium = cell.get("medium").map(|name| name.parse::<MediumName>()).transpose()?;
            if let Some(lacks) = medium.and_then(MediumName::lacks) {
                return Ok(Some(lacks));
            }
            match kind {
                $($name => Ok(read::<$kind>(cell)?.lacks(context)),)*
                _ => unknown(kind),
            }
        }

        /// Measures a cell once.
        ///
        /// # Errors
        /// As [`check`], and what goes wrong.
        pub fn run(kind: &str, cell: &Cell, context: &Context, round: u32) -> Result<Figures> {
            match kind {
                $($name => read::<$kind>(cell)?.run(context, round),)*
                _ => unknown(kind),
            }
        }

        /// Does a phase of a measurement in the process that was started for it.
        ///
        /// # Errors
        /// As [`check`], and what goes wrong.
        pub fn part(kind: &str, cell: &Cell, phase: &str, context: &Context) -> Result<Figures> {
            match kind {
                $($name => read::<$kind>(cell)?.part(phase, context),)*
                _ => unknown(kind),
            }
        }
    };
}

kinds! {
    "apart" => apart::Apart,
    "backup" => backup::Backups,
    "bound" => bound::Bound,
    "drain" => drain::Drain,
    "durabilities" => durabilities::Durabilities,
    "emulation" => emulation::Emulation,
    "endurance" => endurance::Endurance,
    "fill" => fill::Fill,
    "large" => large::Large,
    "leaf" => leaf::Leaf,
    "node" => node::NodeTimes,
    "nodes" => nodes::NodeVisits,
    "open-loop" => open_loop::OpenLoop,
    "recover" => recover::Recover,
    "resume" => resume::Resume,
    "mixed" => mixed::Mixed,
    "parts" => parts::PutParts,
    "range" => range::Ranges,
    "reads" => reads::LineReads,
    "tpcc" => tpcc::Tpcc,
    "tpcc-reads" => tpcc::reads::TpccReads,
    "scan" => scan::NodeScans,
    "skew" => stream::skew::KeySkew,
    "rebuild" => rebuild::Reopen,
    "stream" => stream::Streams,
    "writers" => writers::Writers,
    "written" => written::WrittenBytes,
    "ycsb" => ycsb::Ycsb,
    "sizes" => sizes::Sizes,
    "space" => space::Space,
    "store" => store::Phases,
}

fn unknown<T>(kind: &str) -> Result<T> {
    bail!("no measurement is called {kind:?}")
}

/// One round of a cell that is written as TOML, for the tests of kinds.
#[cfg(test)]
mod tests {
    use super::*;

    pub fn cell(text: &str) -> Cell {
        Cell(text.parse().expect("TOML"))
    }

    pub fn run(kind: &str, text: &str) -> Figures {
        let scratch = tempfile::tempdir().expect("a folder");
        let context = Context { seed: 1, scratch: scratch.path().into(), dax: None };
        let cell = cell(text);
        check(kind, &cell).expect("a cell of this kind");
        let figures = super::run(kind, &cell, &context, 1).expect("a round");
        for (metric, value) in &figures {
            crate::metric::unit(metric).expect("a unit");
            assert!(value.is_finite(), "{metric} is {value}");
        }
        figures
    }

    pub fn of(figures: &Figures, metric: &str) -> f64 {
        let found = figures.iter().find(|(name, _)| name == metric);
        found.unwrap_or_else(|| panic!("no {metric} among {figures:?}")).1
    }
}
