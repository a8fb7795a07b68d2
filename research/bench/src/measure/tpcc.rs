//! The accesses to indexes of an order-entry system, after TPC-C (FAST+FAIR Fig. 7).
//!
//! The paper says no more than that it "varied the percentage of these queries"; so keys, accesses and
//! mixes are ours. All tables are in one tree. A key is `table:4 warehouse:12 district:4 rest:44`:
//!
//! | table | rest | value |
//! |---|---|---|
//! | warehouse | – | year to date |
//! | district | – | `year to date:32 next order:32` |
//! | customer | customer | balance |
//! | customers by last name | `name:24 customer:20` | customer |
//! | order | order | `customer:32 carrier:8 lines:8` |
//! | orders by customer | `customer:20 order:24` | lines |
//! | new order | order | 0 |
//! | order line | `order:40 line:4` | `item:32 delivered:8 quantity:8` |
//! | item (warehouse and district 0) | item | price |
//! | stock (district 0) | item | quantity |
//!
//! Accesses of each transaction, with n order lines (5 to 15):
//!
//! | transaction | searches | ranges | updates | inserts | removes |
//! |---|---|---|---|---|---|
//! | New-Order | 3 + 2n | – | 1 + n | 3 + n | – |
//! | Payment | 3 | 60 %: by last name | 3 | – | – |
//! | Order-Status | 2 | 60 %: by last name; last order; its lines | – | – | – |
//! | Delivery, of each of 10 districts | 2 | oldest new order; its lines | 2 + n | – | 1 |
//! | Stock-Level | 1 + distinct items | lines of the last 20 orders | – | – | – |
//!
//! As in TPC-C: customers and items are drawn by NURand, its constant C being 0; 1 % of lines are supplied
//! by, and 15 % of payments are for customers of, another warehouse if there is one; tables are filled with
//! an order for each customer, of which the last 30 % are not delivered. Left out: rows (a value holds what a
//! transaction needs), History (it has no key), the 1 % of New-Orders that are rolled back, think
//! times, and isolation: a thread has warehouses of its own, and a count of another's stock may lose
//! an update.

pub mod reads;

use std::ops::Bound;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use everleaf_tree::Index;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use crate::clock::Times;
use crate::medium::MediumName;
use crate::system::{Readers, Subject, SystemSpec};

const DISTRICTS: u64 = 10;
const NAMES: u64 = 1000;
const TRANSACTIONS: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];

/// Transactions of a hundred, in the order of [`TRANSACTIONS`]. The first is TPC-C's own mix
/// (its §5.2.3); each step gives ten points each of New-Order and Payment, and one of Delivery, to
/// Order-Status and Stock-Level, which only read. A Delivery takes ten orders, so there are about as
/// many as New-Orders make.
const MIXES: [(&str, [u32; 5]); 4] = [
    ("W1", [45, 43, 4, 4, 4]),
    ("W2", [35, 33, 14, 3, 15]),
    ("W3", [25, 23, 24, 2, 26]),
    ("W4", [15, 13, 34, 1, 37]),
];

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tpcc {
    system: String,
    medium: MediumName,
    slots: u32,
    #[serde(default)]
    readers: Readers,
    /// At least one for each thread.
    warehouses: u64,
    /// Customers of a district; 3000 in TPC-C.
    customers: u64,
    /// 100,000 in TPC-C.
    items: u64,
    /// W1 to W4.
    mix: String,
    /// Transactions of all threads together.
    ops: u64,
    threads: u64,
}

#[derive(Clone, Copy)]
enum Table {
    Warehouse,
    District,
    Customer,
    Named,
    Order,
    Ordered,
    NewOrder,
    Line,
    Item,
    Stock,
}

fn row(table: Table, warehouse: u64, district: u64, rest: u64) -> u64 {
    (table as u64 + 1) << 60 | warehouse << 48 | district << 44 | rest
}

fn line(w: u64, d: u64, order: u64, line: u64) -> u64 {
    row(Table::Line, w, d, order << 4 | line)
}

/// Accesses.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct OrderTally {
    searches: u64,
    ranges: u64,
    /// Entries that ranges returned.
    entries: u64,
    updates: u64,
    inserts: u64,
    removes: u64,
}

impl OrderTally {
    fn add(&mut self, other: &Self) {
        self.searches += other.searches;
        self.ranges += other.ranges;
        self.entries += other.entries;
        self.updates += other.updates;
        self.inserts += other.inserts;
        self.removes += other.removes;
    }

    /// The share of accesses that change nothing.
    fn search_share(&self) -> f64 {
        let reads = self.searches + self.ranges;
        reads as f64 / (reads + self.updates + self.inserts + self.removes) as f64
    }

    fn figures(&self, transactions: u64) -> Figures {
        let each = |count: u64| count as f64 / transactions as f64;
        vec![
            ("search_share".into(), self.search_share()),
            ("searches_count".into(), each(self.searches)),
            ("ranges_count".into(), each(self.ranges)),
            ("entries_count".into(), each(self.entries)),
            ("updates_count".into(), each(self.updates)),
            ("inserts_count".into(), each(self.inserts)),
            ("removes_count".into(), each(self.removes)),
        ]
    }
}

/// The terminal that asks for transactions: one a thread.
struct Terminal<'a> {
    index: &'a dyn Index,
    sizes: &'a Tpcc,
    number: u64,
    rng: Xoshiro256PlusPlus,
    tally: OrderTally,
}

impl<'a> Terminal<'a> {
    fn new(index: &'a dyn Index, sizes: &'a Tpcc, number: u64, seed: u64) -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ (number + 1) << 32);
        Self { index, sizes, number, rng, tally: OrderTally::default() }
    }

    /// The next transaction, where so many of a hundred are of each kind.
    fn draw(&mut self, percentages: [u32; 5]) -> usize {
        let mut drawn = self.rng.random_range(0..100);
        let mut transaction = 0;
        while drawn >= percentages[transaction] {
            drawn -= percentages[transaction];
            transaction += 1;
        }
        transaction
    }

    fn get(&mut self, key: u64) -> Result<u64> {
        self.tally.searches += 1;
        self.index.get(key)?.with_context(|| format!("no row {key:#x}"))
    }

    fn update(&mut self, key: u64, value: u64) -> Result<()> {
        self.tally.updates += 1;
        ensure!(self.index.update(key, value)?.is_some(), "no row {key:#x}");
        Ok(())
    }

    fn insert(&mut self, key: u64, value: u64) -> Result<()> {
        self.tally.inserts += 1;
        ensure!(self.index.insert(key, value)?.is_none(), "the row {key:#x} is there");
        Ok(())
    }

    fn remove(&mut self, key: u64) -> Result<()> {
        self.tally.removes += 1;
        ensure!(self.index.remove(key)?.is_some(), "no row {key:#x}");
        Ok(())
    }

    fn range(&mut self, from: u64, to: u64, limit: usize) -> Result<Vec<(u64, u64)>> {
        let found = self.index.range(Bound::Included(from), Bound::Included(to), limit)?;
        self.tally.ranges += 1;
        self.tally.entries += found.len() as u64;
        Ok(found)
    }

    fn lines(&mut self, w: u64, d: u64, order: u64) -> Result<Vec<(u64, u64)>> {
        self.range(line(w, d, order, 0), line(w, d, order, 15), usize::MAX)
    }

    /// TPC-C's non-uniform random number: 0 to `n - 1`.
    fn skewed(&mut self, a: u64, n: u64) -> u64 {
        let (x, y) = (self.rng.random_range(0..=a), self.rng.random_range(0..n));
        (x | y) % n
    }

    /// One of its own warehouses.
    fn warehouse(&mut self) -> u64 {
        let own = (self.sizes.warehouses - self.number).div_ceil(self.sizes.threads);
        self.number + self.rng.random_range(0..own) * self.sizes.threads
    }

    /// Another warehouse in so many of a hundred cases.
    fn or_remote(&mut self, w: u64, percent: u32) -> u64 {
        let all = self.sizes.warehouses;
        if all > 1 && self.rng.random_range(0..100) < percent {
            (w + self.rng.random_range(1..all)) % all
        } else {
            w
        }
    }

    fn district(&mut self) -> u64 {
        self.rng.random_range(1..=DISTRICTS)
    }

    /// A customer of a district: by number, or in 60 of 100 cases the middle one of a last name.
    fn customer(&mut self, w: u64, d: u64) -> Result<u64> {
        if self.rng.random_range(0..100) >= 60 {
            return Ok(self.skewed(1023, self.sizes.customers));
        }
        let name = self.skewed(255, NAMES.min(self.sizes.customers));
        let from = row(Table::Named, w, d, name << 20);
        let same = self.range(from, from | 0xf_ffff, usize::MAX)?;
        Ok(same.get(same.len() / 2).context("no customer has this name")?.1)
    }

    fn new_order(&mut self) -> Result<()> {
        let (w, d) = (self.warehouse(), self.district());
        let customer = self.skewed(1023, self.sizes.customers);
        self.get(row(Table::Warehouse, w, 0, 0))?;
        self.get(row(Table::Customer, w, d, customer))?;
        let district = self.get(row(Table::District, w, d, 0))?;
        self.update(row(Table::District, w, d, 0), district + 1)?;
        let lines = self.rng.random_range(5..=15);
        let order = district & u64::from(u32::MAX);
        self.enter(w, d, order, customer, lines)?;
        self.insert(row(Table::NewOrder, w, d, order), 0)?;
        for number in 1..=lines {
            let (item, from) = (self.skewed(8191, self.sizes.items), self.or_remote(w, 1));
            let quantity = self.rng.random_range(1..=10);
            self.get(row(Table::Item, 0, 0, item))?;
            let stock = self.get(row(Table::Stock, from, 0, item))?;
            let left = if stock >= quantity + 10 { stock } else { stock + 91 } - quantity;
            self.update(row(Table::Stock, from, 0, item), left)?;
            self.insert(line(w, d, order, number), item << 32 | quantity)?;
        }
        Ok(())
    }

    /// The rows of an order but for its lines.
    fn enter(&mut self, w: u64, d: u64, order: u64, customer: u64, lines: u64) -> Result<()> {
        self.insert(row(Table::Order, w, d, order), customer << 32 | lines)?;
        self.insert(row(Table::Ordered, w, d, customer << 24 | order), lines)
    }

    fn payment(&mut self) -> Result<()> {
        let (w, d) = (self.warehouse(), self.district());
        let amount = self.rng.random_range(1..=5000);
        let paid = self.get(row(Table::Warehouse, w, 0, 0))?;
        self.update(row(Table::Warehouse, w, 0, 0), paid + amount)?;
        let paid = self.get(row(Table::District, w, d, 0))?;
        self.update(row(Table::District, w, d, 0), paid.wrapping_add(amount << 32))?;
        let of = self.or_remote(w, 15);
        let key = row(Table::Customer, of, d, 0) | self.customer(of, d)?;
        let balance = self.get(key)?;
        self.update(key, balance.wrapping_sub(amount))
    }

    fn order_status(&mut self) -> Result<()> {
        let (w, d) = (self.warehouse(), self.district());
        let customer = self.customer(w, d)?;
        self.get(row(Table::Customer, w, d, customer))?;
        let from = row(Table::Ordered, w, d, customer << 24);
        let to = Bound::Included(from | 0xff_ffff);
        let last = self.index.range_back(Bound::Included(from), to, 1)?;
        self.tally.ranges += 1;
        self.tally.entries += last.len() as u64;
        let (key, lines) = *last.first().context("a customer without orders")?;
        let order = key & 0xff_ffff;
        self.get(row(Table::Order, w, d, order))?;
        let found = self.lines(w, d, order)?.len() as u64;
        ensure!(found == lines, "an order of {lines} lines has {found}");
        Ok(())
    }

    fn delivery(&mut self) -> Result<()> {
        let w = self.warehouse();
        let carrier = self.rng.random_range(1..=10);
        for d in 1..=DISTRICTS {
            let from = row(Table::NewOrder, w, d, 0);
            let oldest = self.range(from, from | u64::from(u32::MAX), 1)?;
            let Some((key, _)) = oldest.first().copied() else { continue };
            let order = key & u64::from(u32::MAX);
            self.remove(key)?;
            let own = self.get(row(Table::Order, w, d, order))?;
            self.update(row(Table::Order, w, d, order), own | carrier << 8)?;
            let mut amount = 0;
            for (key, item) in self.lines(w, d, order)? {
                self.update(key, item | 1 << 8)?;
                amount += item & 0xff;
            }
            let customer = row(Table::Customer, w, d, own >> 32);
            let balance = self.get(customer)?;
            self.update(customer, balance.wrapping_add(amount))?;
        }
        Ok(())
    }

    fn stock_level(&mut self) -> Result<()> {
        let (w, d) = (self.warehouse(), self.district());
        let next = self.get(row(Table::District, w, d, 0))? & u64::from(u32::MAX);
        let first = next.saturating_sub(20);
        let lines = self.range(line(w, d, first, 0), line(w, d, next, 0), usize::MAX)?;
        let mut items: Vec<u64> = lines.iter().map(|(_, value)| value >> 32).collect();
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for item in items {
            low += u64::from(self.get(row(Table::Stock, w, 0, item))? < 15);
        }
        std::hint::black_box(low);
        Ok(())
    }

    fn transact(&mut self, transaction: usize) -> Result<()> {
        match transaction {
            0 => self.new_order(),
            1 => self.payment(),
            2 => self.order_status(),
            3 => self.delivery(),
            _ => self.stock_level(),
        }
    }

    /// Fills the tables.
    fn load(&mut self) -> Result<()> {
        for item in 0..self.sizes.items {
            let price = self.rng.random_range(100..=10_000);
            self.insert(row(Table::Item, 0, 0, item), price)?;
        }
        for w in 0..self.sizes.warehouses {
            self.insert(row(Table::Warehouse, w, 0, 0), 0)?;
            for item in 0..self.sizes.items {
                let quantity = self.rng.random_range(10..=100);
                self.insert(row(Table::Stock, w, 0, item), quantity)?;
            }
            for d in 1..=DISTRICTS {
                self.load_district(w, d)?;
            }
        }
        Ok(())
    }

    fn load_district(&mut self, w: u64, d: u64) -> Result<()> {
        let customers = self.sizes.customers;
        self.insert(row(Table::District, w, d, 0), customers + 1)?;
        for customer in 0..customers {
            self.insert(row(Table::Customer, w, d, customer), 1000)?;
            let name = if customer < NAMES { customer } else { self.skewed(255, NAMES) };
            self.insert(row(Table::Named, w, d, name << 20 | customer), customer)?;
        }
        let mut turns: Vec<u64> = (0..customers).collect();
        turns.shuffle(&mut self.rng);
        for (order, customer) in (1..).zip(turns) {
            let lines = self.rng.random_range(5..=15);
            self.enter(w, d, order, customer, lines)?;
            if order * 10 > customers * 7 {
                self.insert(row(Table::NewOrder, w, d, order), 0)?;
            }
            for number in 1..=lines {
                let item = self.rng.random_range(0..self.sizes.items);
                self.insert(line(w, d, order, number), item << 32 | 5)?;
            }
        }
        Ok(())
    }
}

/// The result of a thread: times by transaction, accesses, and when it began and ended.
type TerminalRun = (Vec<Times>, OrderTally, Instant, Instant);

impl Tpcc {
    fn make<'a>(&'a self, context: &'a Context) -> SystemSpec<'a> {
        // A customer has two entries and an order of up to 17 or 18; a New-Order makes up to 18.
        let rows = self.items + self.warehouses * (self.items + DISTRICTS * self.customers * 20);
        SystemSpec {
            name: &self.system,
            medium: self.medium,
            slots: self.slots,
            keys: rows + self.ops * 18,
            readers: self.readers,
            epoch: Some(Duration::from_millis(50)),
            epoch_ops: None,
            scratch: &context.scratch,
            dax: context.dax.as_deref(),
        }
    }

    fn percentages(&self) -> Result<[u32; 5]> {
        let found = MIXES.iter().find(|(name, _)| *name == self.mix);
        Ok(found.with_context(|| format!("no mix is called {:?}: W1 to W4", self.mix))?.1)
    }

    fn work(&self, subject: &dyn Subject, seed: u64, number: u64) -> Result<TerminalRun> {
        let mut terminal = Terminal::new(subject.index(), self, number, seed);
        let percentages = self.percentages()?;
        let mut times: Vec<Times> = TRANSACTIONS.iter().map(|_| Times::default()).collect();
        let start = Instant::now();
        let mut before = start;
        for _ in 0..self.ops / self.threads {
            let transaction = terminal.draw(percentages);
            terminal.transact(transaction)?;
            let now = Instant::now();
            times[transaction].add((now - before).as_nanos() as u64);
            before = now;
        }
        Ok((times, terminal.tally, start, before))
    }
}

impl Measure for Tpcc {
    fn check(&self) -> Result<()> {
        self.percentages()?;
        ensure!(self.threads > 0 && self.ops >= self.threads, "fewer transactions than threads");
        ensure!(
            (self.threads..1 << 12).contains(&self.warehouses),
            "a warehouse for each thread, and less than 4096"
        );
        ensure!((20..1 << 20).contains(&self.customers), "20 customers, and less than 2^20");
        ensure!((1..1 << 32).contains(&self.items), "an item, and less than 2^32");
        ensure!(self.ops + self.customers < 1 << 24, "less than 2^24 orders of a district");
        self.make(&Context::default()).check()
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let subject = self.make(context).make()?;
        let seed = context.seed;
        Terminal::new(subject.index(), self, self.threads, seed).load()?;
        let before = subject.counts();
        let parts = std::thread::scope(|scope| {
            let subject = &*subject;
            let run = |t| scope.spawn(move || self.work(subject, seed, t));
            let threads: Vec<_> = (0..self.threads).map(run).collect();
            let joined = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            joined.collect::<Result<Vec<TerminalRun>>>()
        })?;
        let mut tally = OrderTally::default();
        let mut times: Vec<Times> = TRANSACTIONS.iter().map(|_| Times::default()).collect();
        for (part, own, ..) in &parts {
            tally.add(own);
            times.iter_mut().zip(part).for_each(|(all, own)| all.merge(own));
        }
        let done: u64 = times.iter().map(Times::count).sum();
        let mut figures = tally.figures(done);
        if let Some((after, before)) = subject.counts().zip(before) {
            let (counts, each) = (after - before, |count: u64| count as f64 / done as f64);
            figures.push(("transaction_flushed_lines".into(), each(counts.flushes)));
            figures.push(("transaction_fences".into(), each(counts.fences)));
            return Ok(figures);
        }
        let start = parts.iter().map(|part| part.2).min();
        let end = parts.iter().map(|part| part.3).max();
        let (start, end) = start.zip(end).context("no threads")?;
        let rate = done as f64 / (end - start).as_secs_f64() / 1e3;
        figures.push(("transaction_kops".into(), rate));
        for (name, times) in TRANSACTIONS.iter().zip(&times).filter(|(_, t)| t.count() > 0) {
            figures.extend(times.figures(name));
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, of, run};
    use super::*;

    fn text(system: &str, medium: &str, mix: &str, threads: u64) -> String {
        format!(
            "system = \"{system}\"\nmedium = \"{medium}\"\nslots = 32\nwarehouses = 2\n\
             customers = 40\nitems = 500\nmix = \"{mix}\"\nops = 1000\nthreads = {threads}"
        )
    }

    #[test]
    fn transactions_access_what_the_table_says() {
        let cell = cell(&text("BTreeMap", "dram", "W1", 1));
        let sizes: Tpcc = super::super::read(&cell).expect("a cell of this kind");
        let context = Context { seed: 3, scratch: ".".into(), dax: None };
        let subject = sizes.make(&context).make().expect("in memory");
        let mut terminal = Terminal::new(subject.index(), &sizes, 0, 3);
        terminal.load().expect("room");
        let mut by_name = 0;
        for turn in 0..500 {
            terminal.tally = OrderTally::default();
            let transaction = turn % 5;
            terminal.transact(transaction).expect("all rows are there");
            let own = terminal.tally;
            let fixed = OrderTally { entries: 0, ..own };
            let zero = OrderTally::default();
            match transaction {
                0 => {
                    let n = own.inserts - 3;
                    assert!((5..=15).contains(&n) && own.entries == 0);
                    let searches = 3 + 2 * n;
                    assert_eq!(
                        fixed,
                        OrderTally { searches, updates: 1 + n, inserts: 3 + n, ..zero }
                    );
                }
                1 | 2 => {
                    let (searches, updates, least) = [(3, 3, 0), (2, 0, 2)][transaction - 1];
                    let ranges = own.ranges;
                    by_name += ranges - least;
                    assert_eq!(fixed, OrderTally { searches, updates, ranges, ..zero });
                    assert!((least..=least + 1).contains(&ranges));
                }
                3 if own.removes == DISTRICTS => {
                    let updates = 2 * DISTRICTS + own.entries - DISTRICTS;
                    let [searches, ranges, removes] = [20, 20, 10];
                    assert_eq!(fixed, OrderTally { searches, ranges, updates, removes, ..zero });
                }
                3 => assert!(turn > 50, "40 customers leave 12 orders of each district"),
                _ => {
                    let searches = own.searches;
                    assert_eq!(fixed, OrderTally { searches, ranges: 1, ..zero });
                    assert!((100..=300).contains(&own.entries), "{own:?}");
                    assert!((2..=1 + own.entries).contains(&searches));
                }
            }
        }
        // 60 of 100 in 200 draws; the standard deviation is 7.
        assert!(by_name.abs_diff(120) < 40, "{by_name}");
    }

    #[test]
    fn the_share_of_searches_rises_from_mix_to_mix() {
        let share = |mix| of(&run("tpcc", &text("BTreeMap", "dram", mix, 1)), "search_share");
        let shares = ["W1", "W2", "W3", "W4"].map(share);
        assert!(shares.is_sorted_by(|a, b| a + 0.02 < *b), "{shares:?}");
        assert!(MIXES.iter().all(|(_, mix)| mix.iter().sum::<u32>() == 100));
    }

    #[test]
    fn accesses_are_the_same_for_every_system_and_again() {
        let counted = run("tpcc", &text("FastFair", "counted", "W2", 1));
        assert_eq!(counted, run("tpcc", &text("FastFair", "counted", "W2", 1)));
        for (system, threads) in [("BTreeMap", 1), ("CircTree", 1), ("BdTree", 1)] {
            let own = run("tpcc", &text(system, "dram", "W2", threads));
            for kind in ["searches", "ranges", "entries", "updates", "inserts", "removes"] {
                let metric = format!("{kind}_count");
                assert_eq!(of(&own, &metric), of(&counted, &metric), "{system}: {metric}");
            }
            assert!(of(&own, "transaction_kops") > 0.0 && of(&own, "stock_level_p99_ns") > 0.0);
        }
    }

    #[test]
    fn threads_do_the_same_whoever_comes_first() {
        let counts = |figures: Figures| {
            let exact = figures.into_iter().filter(|(metric, _)| !crate::metric::is_timed(metric));
            exact.collect::<Figures>()
        };
        let two = || counts(run("tpcc", &text("CircTree", "dram", "W1", 2)));
        assert_eq!(two(), two());
    }
}
