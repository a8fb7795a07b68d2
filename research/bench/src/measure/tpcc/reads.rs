//! Lines that a transaction loads, and what slow reads would make of them ([`read_model`]; FAST+FAIR
//! Fig. 7). A transaction begins with empty caches; a line that it loads twice is read once.

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::{Terminal, Tpcc};
use crate::measure::kind::{Context, Figures, Measure};
use crate::measure::read_model::{self, ReadTally};
use crate::medium::MediumName;
use crate::system::Readers;

/// The parameters: those of [`Tpcc`] for one thread, and the latency.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccReads {
    system: String,
    slots: u32,
    warehouses: u64,
    customers: u64,
    items: u64,
    mix: String,
    ops: u64,
    /// The latency of a line of persistent memory, in nanoseconds.
    read_ns: u64,
}

impl TpccReads {
    fn transactions(&self) -> Tpcc {
        Tpcc {
            system: self.system.clone(),
            medium: MediumName::Dram,
            slots: self.slots,
            readers: Readers::default(),
            warehouses: self.warehouses,
            customers: self.customers,
            items: self.items,
            mix: self.mix.clone(),
            ops: self.ops,
            threads: 1,
        }
    }
}

impl Measure for TpccReads {
    fn check(&self) -> Result<()> {
        ensure!(self.read_ns > 0, "reads of 0 ns: a latency is more than that");
        let transactions = self.transactions();
        transactions.check()?;
        transactions.make(&Context::default()).check_spanned()
    }

    fn lacks(&self, _context: &Context) -> Option<String> {
        read_model::lacks()
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let transactions = self.transactions();
        let percentages = transactions.percentages()?;
        let (subject, span) = transactions.make(context).make_spanned()?;
        Terminal::new(subject.index(), &transactions, 1, context.seed).load()?;
        subject.tick()?;
        let mut terminal = Terminal::new(subject.index(), &transactions, 0, context.seed);
        let mut tally = ReadTally::new(&span);
        for _ in 0..self.ops {
            let transaction = terminal.draw(percentages);
            tally.of(|| terminal.transact(transaction))?;
        }
        let mut figures = terminal.tally.figures(self.ops);
        figures.extend(tally.figures("transaction", self.read_ns));
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use crate::measure::tests::cell;

    fn text(system: &str, mix: &str) -> String {
        format!(
            "system = \"{system}\"\nslots = 32\nwarehouses = 1\ncustomers = 40\nitems = 500\n\
             mix = \"{mix}\"\nops = 200\nread_ns = 300"
        )
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let check = |text: &str| crate::measure::check("tpcc-reads", &cell(text));
        check(&text("FastFair", "W1")).expect("a cell of this kind");
        for wrong in [
            text("FastFair", "W5"),
            text("FastFair", "W1").replace("300", "0"),
            text("FastFair", "W1").replace("customers = 40", "customers = 1"),
            text("BTreeMap", "W1"),
            text("VolatileStd", "W1"),
        ] {
            assert!(check(&wrong).is_err(), "{wrong}");
        }
    }

    #[cfg(feature = "lines-read")]
    #[test]
    fn a_transaction_that_searches_more_loads_more_and_a_second_round_the_same() {
        use crate::measure::tests::{of, run};
        for system in ["FastFair", "CircTree", "FpTree56", "WbTree", "Wort", "SkipList"] {
            let [first, again] = [(); 2].map(|()| run("tpcc-reads", &text(system, "W1")));
            assert_eq!(first, again, "{system}");
            let lines = of(&first, "transaction_pm_lines");
            assert_eq!(of(&first, "transaction_modelled_ns"), 300.0 * lines, "{system}");
            assert!(of(&first, "transaction_pm_runs_count") <= lines && lines > 10.0, "{system}");
            let last = run("tpcc-reads", &text(system, "W4"));
            let share = |figures| of(figures, "search_share");
            assert!(share(&last) > share(&first), "{system}");
        }
    }
}
