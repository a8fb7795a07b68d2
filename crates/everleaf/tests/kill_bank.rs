//! A bank whose transfers are transactions on threads, killed at random moments.
//!
//! ```text
//! accounts   account            balance
//! ledger     teller, number     a transfer: from, to, amount
//! settled    teller, account    what transfers have moved that are not in the ledger any more
//! tellers    teller             the numbers of the first and of the next transfer in the ledger
//! ```
//!
//! Each transfer changes all of them but the third, in one transaction; now and then a teller settles its oldest
//! transfers, also in one. So what a pool holds at any moment must agree: all balances come to the same sum, each
//! one to what was settled and what the ledger says, and the ledger has the numbers that it should have. An auditor
//! says so beside the tellers, of snapshots and of transactions that only read, and the parent says so after each
//! kill, and that nothing is gone that was acknowledged as durable.
//!
//! `EVERLEAF_SCALE` sets how often (5), `EVERLEAF_SEED` where the random numbers start. Every fifth kill is of
//! a bank on emulated persistent memory.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use everleaf::{
    Db, Durability, Isolation, Options, Pair, Result, Storage, Transaction, TransactionOptions,
    Tree,
};
use everleaf_testing::{Rng, count, seed_or};

mod victim;

const VICTIM: &str = "EVERLEAF_BANK_VICTIM";
const TELLERS: u64 = 4;
const ACCOUNTS: u64 = 24;
const BALANCE: i64 = 1000;
/// So many transfers of a teller are settled at once, when there are twice as many.
const SETTLED: u64 = 40;
const TREES: [&str; 4] = ["accounts", "ledger", "settled", "tellers"];

/// The medium of a bank, and how its tellers begin.
#[derive(Clone, Copy)]
struct Bank {
    seed: u64,
    is_dax: bool,
}

impl Bank {
    fn options(self) -> Options {
        if self.is_dax {
            return Options::new().storage(Storage::EmulatedDax).max_bytes(16 << 20);
        }
        let interval = Duration::from_millis([1, 2, 10][(self.seed % 3) as usize]);
        // So short a journal that checkpoints come many times a second.
        let options = Options::new().journal_bytes(256 << 10).page_bytes(512).interval(interval);
        // Every other time pages leave memory all the time.
        match self.seed.is_multiple_of(2) {
            true => options,
            false => options.memory(1).evict_small_pages(),
        }
    }
}

fn words<const N: usize>(bytes: &[u8]) -> [i64; N] {
    let mut words = bytes.chunks(8).map(|word| i64::from_be_bytes(word.try_into().expect("8")));
    let all = std::array::from_fn(|_| words.next().expect("a word"));
    assert!(words.next().is_none(), "{bytes:?} is more than {N} words");
    all
}

fn bytes<const N: usize>(words: [i64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn key<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The trees of a bank.
struct Books([Tree; 4]);

impl Books {
    /// New accounts are all opened in one batch.
    fn open(db: &Db) -> Result<Self> {
        let trees = TREES.map(|name| db.tree(name));
        let [a, b, c, d] = trees;
        let books = Self([a?, b?, c?, d?]);
        let accounts = &books.0[0];
        if accounts.iter().next().is_none() {
            let mut batch = db.with(Durability::Sync).batch();
            for account in 0..ACCOUNTS {
                batch.put(accounts, key([account]), bytes([BALANCE]))?;
            }
            batch.commit()?;
        }
        Ok(books)
    }

    /// The numbers of a teller's first and next transfer.
    fn numbers(&self, tx: &Transaction, teller: u64) -> Result<[i64; 2]> {
        let found = tx.get(&self.0[3], key([teller]))?;
        Ok(found.map_or([0; 2], |found| words(&found)))
    }

    fn transfer(&self, tx: &Transaction, teller: u64, transfer: [i64; 3]) -> Result<i64> {
        let [accounts, ledger, _, tellers] = &self.0;
        let [first, next] = self.numbers(tx, teller)?;
        for (account, by) in [(transfer[0], -transfer[2]), (transfer[1], transfer[2])] {
            let account = key([account as u64]);
            let [balance] = words(&tx.get(accounts, &account)?.expect("accounts stay"));
            tx.put(accounts, account, bytes([balance + by]))?;
        }
        tx.put(ledger, key([teller, next as u64]), bytes(transfer))?;
        tx.put(tellers, key([teller]), bytes([first, next + 1]))?;
        Ok(next + 1)
    }

    /// Takes a teller's oldest transfers out of the ledger.
    fn settle(&self, tx: &Transaction, teller: u64) -> Result<()> {
        let [_, ledger, settled, tellers] = &self.0;
        let [first, next] = self.numbers(tx, teller)?;
        let range = key([teller, first as u64])..key([teller, first as u64 + SETTLED]);
        let old = tx.range(ledger, range).collect::<Result<Vec<Pair>>>()?;
        assert_eq!(old.len() as u64, SETTLED, "of teller {teller} from {first} on");
        for (number, transfer) in old {
            let [from, to, amount] = words(&transfer);
            for (account, by) in [(from, -amount), (to, amount)] {
                let at = key([teller, account as u64]);
                let [sum] = tx.get(settled, &at)?.map_or([0], |sum| words(&sum));
                tx.put(settled, at, bytes([sum + by]))?;
            }
            tx.delete(ledger, number)?;
        }
        tx.put(tellers, key([teller]), bytes([first + SETTLED as i64, next]))
    }
}

/// Audits a bank at one moment: `pairs` gives those of a tree by its number.
fn audit(pairs: impl Fn(usize) -> Result<Vec<Pair>>) -> Result<BTreeMap<u64, i64>> {
    let number = |key: &[u8]| words::<1>(&key[key.len() - 8..])[0];
    // In no order of writes.
    let [tellers, settled, ledger, accounts] = [pairs(3)?, pairs(2)?, pairs(1)?, pairs(0)?];
    let mut balances: BTreeMap<i64, i64> = (0..ACCOUNTS as i64).map(|n| (n, BALANCE)).collect();
    let mut add = |account, by| *balances.get_mut(&account).expect("an account") += by;
    for (at, sum) in &settled {
        add(number(at), words::<1>(sum)[0]);
    }
    let mut numbers = BTreeMap::<u64, Vec<i64>>::new();
    for (at, transfer) in &ledger {
        let [from, to, amount] = words(transfer);
        add(from, -amount);
        add(to, amount);
        let [teller, n] = words(at);
        numbers.entry(teller as u64).or_default().push(n);
    }
    let mut next = BTreeMap::new();
    for (teller, found) in &tellers {
        let (teller, [first, end]) = (number(teller) as u64, words(found));
        let found = numbers.remove(&teller).unwrap_or_default();
        assert!(found.into_iter().eq(first..end), "the ledger of {teller} is not {first}..{end}");
        next.insert(teller, end);
    }
    assert!(numbers.is_empty(), "transfers of nobody: {numbers:?}");
    let found: BTreeMap<_, _> =
        accounts.iter().map(|(at, balance)| (number(at), words::<1>(balance)[0])).collect();
    assert_eq!(found, balances, "the balances are not what was moved");
    assert_eq!(found.values().sum::<i64>(), BALANCE * ACCOUNTS as i64);
    Ok(next)
}

/// One teller's session: each transfer as a transaction of some kind. Says what is durable.
fn work(bank: Bank, db: &Db, books: &Books, teller: u64, rng: &mut Rng) -> Result<()> {
    let mut next = 0;
    for _ in 0..20 + rng.below(300) {
        let transfer = [rng.below(ACCOUNTS), rng.below(ACCOUNTS), rng.below(50)].map(|n| n as i64);
        let is_sync = rng.one_in(5);
        let db = db.with(if is_sync { Durability::Sync } else { Durability::Buffered });
        let options = TransactionOptions::new().attempts(1000);
        // A transaction that writes all that it reads is safe with less isolation, too.
        let options = match rng.one_in(3) {
            true => options.isolation(Isolation::Snapshot),
            false => options,
        };
        if rng.one_in(10) {
            let tx = db.begin_with(options);
            books.transfer(&tx, teller, transfer)?;
            tx.abort();
        }
        next = db.transact_with(options, |tx| books.transfer(tx, teller, transfer))?;
        let then_sync = rng.below(40);
        match then_sync {
            0 => db.sync()?,
            1 => db.wait_durable(db.epoch())?,
            _ => {}
        }
        if is_sync || then_sync < 2 || bank.is_dax {
            println!("durable {teller} {next}");
        }
        let [first, end] = books.numbers(&db.begin(), teller)?;
        if end - first >= 2 * SETTLED as i64 {
            db.transact_with(options, |tx| books.settle(tx, teller))?;
        }
        if rng.one_in(200) {
            db.checkpoint()?;
        }
    }
    println!("done {teller} {next}");
    Ok(())
}

/// Looks at the bank until the tellers are done.
fn watch(db: &Db, books: &Books, is_over: &AtomicBool) -> Result<()> {
    let mut last = BTreeMap::new();
    for round in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let seen = if round % 2 == 0 {
            let snapshot = db.snapshot()?;
            audit(|n| snapshot.of(&books.0[n])?.iter().collect())?
        } else {
            let tx = db.begin();
            audit(|n| tx.iter(&books.0[n]).collect())?
        };
        let is_later = |(teller, next)| seen.get(teller).is_some_and(|later| later >= next);
        assert!(last.iter().all(is_later), "{seen:?} after {last:?}");
        last = seen;
        println!("audited");
    }
    Ok(())
}

/// Runs sessions on the bank that `EVERLEAF_BANK_VICTIM` tells until it is killed. Does nothing by itself.
#[test]
#[ignore = "started by a_bank_survives_kill_9"]
fn victim() {
    let Some((numbers, path)) = victim::told(VICTIM) else { return };
    let bank = Bank { seed: numbers[0], is_dax: numbers[1] == 1 };
    let mut rng = Rng(numbers[2]);
    loop {
        let db = bank.options().open(&path).expect("a sound pool");
        let books = Books::open(&db).expect("room");
        println!("opened");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let auditor = scope.spawn(|| watch(&db, &books, &is_over).expect("sound"));
            let tellers: Vec<_> = (0..TELLERS)
                .map(|teller| {
                    let (db, books, mut rng) = (&db, &books, Rng(rng.next()));
                    scope.spawn(move || work(bank, db, books, teller, &mut rng).expect("room"))
                })
                .collect();
            tellers.into_iter().for_each(|teller| teller.join().expect("no panic"));
            is_over.store(true, Ordering::Relaxed);
            auditor.join().expect("no panic");
        });
        drop(books);
        println!("closing");
        db.close().expect("closed");
        println!("closed");
    }
}

/// The progress that a victim had reported when it was killed.
#[derive(Default)]
struct Said {
    last: &'static str,
    durable: BTreeMap<u64, i64>,
    /// Numbers that become durable with the close.
    done: BTreeMap<u64, i64>,
    audits: u64,
}

fn hear<'w>(said: &mut Said, mut words: impl Iterator<Item = &'w str>) {
    let word = words.next();
    match word {
        Some("opened") => said.last = "among transfers",
        Some("audited") => said.audits += 1,
        Some("closing") => said.last = "in the close",
        Some("closed") => {
            said.last = "in the next open";
            said.durable.append(&mut said.done);
        }
        Some("durable" | "done") => {
            // The last line may be cut: then a number has less digits, and is too small.
            let mut number = || words.next()?.parse::<i64>().ok();
            if let (Some(teller), Some(n)) = (number(), number()) {
                let of = if word == Some("done") { &mut said.done } else { &mut said.durable };
                let of = of.entry(teller as u64).or_default();
                *of = n.max(*of);
            }
        }
        _ => {} // the test harness
    }
}

/// One bank on its medium, with what is known to be there.
struct Place {
    dir: tempfile::TempDir,
    bank: Bank,
    next: BTreeMap<u64, i64>,
}

impl Place {
    fn new(bank: Bank) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Place { dir, bank, next: BTreeMap::new() }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("p")
    }

    fn kill(&self, life: Duration, seed: u64) -> Said {
        let numbers = [self.bank.seed, u64::from(self.bank.is_dax), seed];
        let told = victim::tell(&numbers, &self.path());
        let said = Said { last: "before the open", ..Said::default() };
        victim::run_and_kill((VICTIM, told), life, Command::spawn, said, |said, words| {
            hear(said, words);
        })
    }

    /// The bank after a kill. How many transfers there are more than before.
    fn verify(&mut self, said: &Said) -> i64 {
        if !self.path().exists() {
            assert_eq!(said.durable, BTreeMap::new());
            return 0;
        }
        let db = self.bank.options().open(self.path()).expect("a sound pool");
        assert_eq!(db.check().expect("readable"), []);
        let books = Books::open(&db).expect("room");
        let seen = audit(|n| books.0[n].iter().collect()).expect("readable");
        for (teller, next) in self.next.iter().chain(&said.durable) {
            let found = seen.get(teller).copied().unwrap_or(0);
            assert!(found >= *next, "teller {teller} had {next} transfers, and has {found}");
        }
        let more = seen.values().sum::<i64>() - self.next.values().sum::<i64>();
        self.next = seen;
        drop(books);
        db.close().expect("closed");
        more
    }
}

#[test]
fn a_bank_survives_kill_9() {
    let (kills, seed) = (count(5, 500), seed_or(1));
    let start = Instant::now();
    let mut rng = Rng(seed);
    let mut places = [false, true].map(|is_dax| Place::new(Bank { seed: rng.next(), is_dax }));
    let mut tally = BTreeMap::<&str, u64>::new();
    let (mut transfers, mut audits) = (0, 0);
    for round in 0..kills {
        let place = &mut places[usize::from(round % 5 == 4)];
        if rng.one_in(8) {
            *place = Place::new(Bank { seed: rng.next(), ..place.bank });
        }
        let life = Duration::from_micros(50_000 + rng.below(250_000));
        let of = rng.next();
        println!("kill {round} of EVERLEAF_SEED={seed}: {} {of} {life:?}", place.bank.seed);
        let said = place.kill(life, of);
        transfers += place.verify(&said);
        audits += said.audits;
        *tally.entry(said.last).or_default() += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let line = format!(
        "kill -9, bank: {kills} in {seconds:.1} s, {tally:?}, {transfers} transfers, {audits} audits\n"
    );
    let _ = std::io::stderr().write_all(line.as_bytes()); // past the harness's capture
    assert!(kills < 5 || transfers > 0 && audits > 0, "nothing was moved, or nobody looked");
}
