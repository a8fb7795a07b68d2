//! Accounts and transfers: money moves, and its sum stays what it is.
//!
//! ```sh
//! cargo run --release -p everleaf --example ledger [POOL]
//! ```
//!
//! | tree        | key                             | value                                        |
//! |-------------|---------------------------------|----------------------------------------------|
//! | `accounts`  | name                            | balance in cents (8 bytes)                   |
//! | `transfers` | number, by `everleaf::keys`     | amount (8 bytes), payer, a zero byte, payee  |
//!
//! A transfer is one transaction: it reads both balances, changes them and appends to `transfers`. It survives
//! a crash as a whole or not at all, and so other threads see it. If another transfer changes one of the
//! accounts meanwhile, or takes the number, this one is run again. A read of all balances takes a snapshot.

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;
use std::thread;

use everleaf::{Bytes, Db, Tree, keys};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Ledger {
    db: Db,
    accounts: Tree,
    transfers: Tree,
}

impl Ledger {
    fn open(path: &Path) -> Result<Ledger> {
        let db = Db::open(path)?;
        let (accounts, transfers) = (db.tree("accounts")?, db.tree("transfers")?);
        Ok(Ledger { db, accounts, transfers })
    }

    /// A single balance. One read is whole by itself.
    fn balance(&self, account: &str) -> Result<Option<i64>> {
        cents(self.accounts.get(account)?)
    }

    /// Moves money; false if the payer has not enough of it. The transfer is on disk when this
    /// returns `true`.
    fn transfer(&self, payer: &str, payee: &str, amount: u64) -> Result<bool> {
        let amount = i64::try_from(amount)?;
        if payer == payee {
            return Err("payer and payee are the same account".into());
        }
        let moved = self.db.try_transact(|tx| -> Result<bool> {
            let from = cents(tx.get(&self.accounts, payer)?)?.ok_or("no such payer")?;
            let to = cents(tx.get(&self.accounts, payee)?)?.ok_or("no such payee")?;
            if from < amount {
                return Ok(false);
            }
            let to = to.checked_add(amount).ok_or("the payee has too much money")?;
            let last = tx.last(&self.transfers)?;
            let last = last.map(|(key, _)| keys::decode::<u64>(key));
            let number = last.transpose()?.unwrap_or(0) + 1;
            let record = [&amount.to_le_bytes(), payer.as_bytes(), &[0], payee.as_bytes()].concat();
            tx.put(&self.accounts, payer, (from - amount).to_le_bytes())?;
            tx.put(&self.accounts, payee, to.to_le_bytes())?;
            tx.put(&self.transfers, keys::encode(number), record)?;
            Ok(true)
        })?;
        // The next thread may build on this transfer before it is on disk: its own is in the same epoch or a
        // later one, and a crash never keeps a later epoch without an earlier one. Threads that wait here share
        // one sync.
        if moved {
            self.db.sync()?;
        }
        Ok(moved)
    }

    /// The sum of all balances at one moment.
    fn sum(&self) -> Result<i64> {
        let mut sum = 0;
        for pair in &self.db.snapshot()?.of(&self.accounts)? {
            sum += i64::from_le_bytes(pair?.1.try_into()?);
        }
        Ok(sum)
    }
}

fn cents(stored: Option<Bytes>) -> Result<Option<i64>> {
    Ok(stored.map(|bytes| bytes.try_into().map(i64::from_le_bytes)).transpose()?)
}

/// Names of accounts with what each has at the start.
const ACCOUNTS: [(&str, i64); 4] = [("ada", 5_000), ("ben", 500), ("cleo", 0), ("dan", 100_000)];

/// The program: four threads transfer at random while one audits; then the books are read again.
pub fn run(path: &Path) -> Result<()> {
    let ledger = Ledger::open(path)?;
    if ledger.accounts.first()?.is_none() {
        let mut batch = ledger.db.batch();
        for (name, cents) in ACCOUNTS {
            batch.put(&ledger.accounts, name, cents.to_le_bytes())?;
        }
        batch.commit()?;
    }
    let sum = ACCOUNTS.iter().map(|(_, cents)| cents).sum::<i64>();
    assert_eq!(ledger.sum()?, sum);
    assert!(ledger.transfer("ada", "ada", 1).is_err() && ledger.transfer("ada", "eve", 1).is_err());
    assert!(!ledger.transfer("ada", "ben", sum as u64 + 1)?);

    thread::scope(|scope| {
        let transfers = || -> Result<()> {
            for _ in 0..25 {
                let (payer, other) = (rand::random_range(0..4), rand::random_range(1..4));
                let (payer, payee) = (ACCOUNTS[payer].0, ACCOUNTS[(payer + other) % 4].0);
                ledger.transfer(payer, payee, rand::random_range(0..2_000))?;
            }
            Ok(())
        };
        let writers = [(); 4].map(|()| scope.spawn(transfers));
        while writers.iter().any(|writer| !writer.is_finished()) {
            assert_eq!(ledger.sum()?, sum);
            thread::yield_now();
        }
        writers.into_iter().try_for_each(|writer| writer.join().expect("no writer panicked"))
    })?;
    drop(ledger);

    // The accounts have what the transfers say, from the start on.
    let ledger = Ledger::open(path)?;
    let mut balances = std::collections::BTreeMap::from(ACCOUNTS);
    for pair in &ledger.transfers {
        let (_, record) = pair?;
        let (cents, names) = record.split_first_chunk().ok_or("a transfer is too short")?;
        let (payer, payee) = str::from_utf8(names)?.split_once('\0').ok_or("no two names")?;
        *balances.get_mut(payer).ok_or("an unknown payer")? -= i64::from_le_bytes(*cents);
        *balances.get_mut(payee).ok_or("an unknown payee")? += i64::from_le_bytes(*cents);
    }
    for (name, cents) in balances {
        assert_eq!(ledger.balance(name)?, Some(cents), "{name}");
    }
    assert_eq!(ledger.sum()?, sum);
    writeln!(
        stdout(),
        "{} transfers; the sum is {sum} cents as before",
        ledger.transfers.iter().count()
    )?;
    Ok(ledger.db.close()?)
}

/// Runs in the pool that is named, or in one that is removed at the end.
fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(path) => run(path.as_ref()),
        None => run(&tempfile::tempdir()?.path().join("ledger.ever")),
    }
}
