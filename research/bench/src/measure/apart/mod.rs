//! The cost of snapshots and transactions: a ledger, a queue, reads beside a snapshot, small transactions.

mod moments;
mod own;
mod transactions;
mod work;

use anyhow::{Result, ensure};

use self::work::Task;
use super::kind::{Context, Figures, Measure};
use crate::store;

pub use self::work::Apart;

impl Measure for Apart {
    fn check(&self) -> Result<()> {
        ensure!(self.keys > 0 && self.ops > 0 && self.threads > 0, "nothing to do");
        if self.task.is_by_transactions() {
            return store::check_transactions(&self.system);
        }
        ensure!(self.system == "everleaf", "only everleaf is measured");
        Ok(())
    }

    fn lacks(&self, _context: &Context) -> Option<String> {
        store::lacks(&self.system)
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let dir = tempfile::tempdir_in(&context.scratch)?;
        match self.task {
            Task::Ledger | Task::Mixed => transactions::run(self, dir.path(), context.seed),
            _ => own::run(self, dir.path(), context.seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::measure::tests::{cell, of, run};
    use crate::store;

    #[test]
    fn all_that_have_transactions_do_the_same_work() {
        for system in ["everleaf", "redb", "fjall", "rocksdb", "sqlite", "lmdb", "lmdb-writemap"] {
            if store::lacks(system).is_some() {
                continue;
            }
            for (task, metric) in [("ledger", "transfer_p999_ns"), ("mixed", "transaction_p999_ns")]
            {
                let what = format!("system = '{system}'\ntask = '{task}'\nper_transaction = 5");
                let text = format!("{what}\nkeys = 50\nops = 200\nthreads = 2");
                let figures = run("apart", &text);
                assert!(of(&figures, metric) > 0.0 && of(&figures, "kops") > 0.0);
                assert!(of(&figures, "again_share") >= 0.0, "{system} did less than it was asked");
            }
        }
    }

    #[test]
    fn what_is_not_by_transactions_is_of_everleaf_alone() {
        let text =
            |system, task| format!("system = '{system}'\ntask = '{task}'\nkeys = 50\nops = 20");
        let check = |system, task| crate::measure::check("apart", &cell(&text(system, task)));
        assert!(check("everleaf", "queue").is_ok() && check("redb", "queue").is_err());
        assert!(check("redb", "mixed").is_ok() && check("btreemap", "mixed").is_err());
        let figures = run("apart", &text("everleaf", "queue"));
        assert!(of(&figures, "claim_p999_ns") > 0.0);
        run("apart", &text("everleaf", "snapshot"));
    }

    #[test]
    fn walks_and_waits_have_figures_for_each_thing_that_is_done() {
        let text = |task| {
            format!("system = 'everleaf'\ntask = '{task}'\nkeys = 500\nops = 2\nthreads = 2")
        };
        let metrics: [(&str, &[&str]); 3] = [
            ("cursors", &["nothing_then_ns", "one_tree_ns", "hundredth_then_ns", "all_then_ns"]),
            ("iterators", &["alone_ns", "beside_ns"]),
            ("waits", &["snapshot_max_ns", "len_max_ns", "transaction_max_ns"]),
        ];
        for (task, metrics) in metrics {
            let figures = run("apart", &text(task));
            assert!(metrics.iter().all(|metric| of(&figures, metric) > 0.0), "{figures:?}");
        }
    }
}
