//! What the shell holds between two lines: the pool, the tree in use, the open transaction.

use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::{Db, Error, Transaction, Tree};

use super::command::{self, Command};
use crate::escape::{escape, escaped};
use crate::failure::{CommandError, Result};
use crate::output::print;
use crate::scan::{self, Pairs, PartArgs};
use crate::{pool, stat, trees};

/// An open pool and what lines before have made of it.
pub struct Session {
    /// The pool.
    pub db: Db,
    read_only: bool,
    /// The tree of commands that name none.
    pub tree: Option<String>,
    transaction: Option<Transaction>,
}

/// Whether another line is wanted.
pub enum Then {
    /// Yes.
    Next,
    /// No: `quit`.
    Quit,
}

/// Why a line did not do what it says.
#[derive(Debug)]
pub struct LineError {
    /// The cause, with its exit code.
    pub error: CommandError,
    /// No later line can do better: the pool has stopped, or nobody reads our output.
    pub is_final: bool,
}

impl From<Error> for LineError {
    fn from(error: Error) -> Self {
        let is_final = matches!(
            error,
            Error::Closed | Error::Forked | Error::Interrupted { .. } | Error::Poisoned { .. }
        );
        LineError { error: error.into(), is_final }
    }
}

impl From<CommandError> for LineError {
    fn from(error: CommandError) -> Self {
        let is_final = matches!(error, CommandError::Unread | CommandError::Interrupted(_));
        LineError { error, is_final }
    }
}

impl Session {
    /// Nothing is in use or open yet.
    pub fn new(db: Db, read_only: bool) -> Self {
        Session { db, read_only, tree: None, transaction: None }
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Does what a line says. `stop` ends the printing of pairs.
    pub fn run(&mut self, line: &[u8], stop: &AtomicBool) -> Result<Then, LineError> {
        match command::parse(line).map_err(CommandError::Usage)? {
            Command::Nothing => {}
            Command::Get(tree, key) => self.get(tree, &key)?,
            Command::Put(tree, key, value) => self.put(tree, &key, &value)?,
            Command::Del(tree, key) => self.del(tree, &key)?,
            Command::Scan(tree, part) => self.scan(tree, &part, stop)?,
            Command::Trees => print(trees::text(&self.db)?)?,
            Command::Use(tree) => self.take(tree)?,
            Command::Begin => self.begin()?,
            Command::Commit => self.commit()?,
            Command::Abort => self.opened()?.abort(),
            Command::Stat => print(stat::text(&self.db)?)?,
            Command::Help => print(command::help())?,
            Command::Quit => return Ok(Then::Quit),
        }
        Ok(Then::Next)
    }

    /// Closes the pool. An open transaction is aborted; says whether there was one.
    pub fn close(self) -> (bool, Result<()>) {
        let was_open = self.transaction.is_some();
        drop(self.transaction);
        (was_open, self.db.close().map_err(CommandError::from))
    }

    fn name<'n>(&'n self, tree: &'n Option<String>) -> Result<&'n str> {
        let name = tree.as_deref().or(self.tree.as_deref());
        name.ok_or_else(|| {
            CommandError::Usage("no tree is in use: name one, or say `use TREE` before".into())
        })
    }

    fn find(&self, tree: &Option<String>) -> Result<Tree, LineError> {
        let name = self.name(tree)?;
        Ok(self.db.open_tree(name)?.ok_or_else(|| pool::missing(name))?)
    }

    fn get(&self, tree: Option<String>, key: &[u8]) -> Result<(), LineError> {
        let tree = self.find(&tree)?;
        let value = match &self.transaction {
            Some(transaction) => transaction.get(&tree, key)?,
            None => tree.get(key)?,
        };
        let value = value.ok_or_else(no_such_key)?;
        let mut text = Vec::with_capacity(value.len() + 1);
        escape(&value, &mut text);
        text.push(b'\n');
        Ok(print(text)?)
    }

    fn put(&mut self, tree: Option<String>, key: &[u8], value: &[u8]) -> Result<(), LineError> {
        self.writable()?;
        // A tree is made at once, also inside of a transaction.
        let tree = self.db.tree(self.name(&tree)?)?;
        match &mut self.transaction {
            Some(transaction) => transaction.put(&tree, key, value)?,
            None => tree.put(key, value)?,
        }
        Ok(())
    }

    fn del(&mut self, tree: Option<String>, key: &[u8]) -> Result<(), LineError> {
        self.writable()?;
        let tree = self.find(&tree)?;
        let old = match &mut self.transaction {
            Some(transaction) => transaction.remove(&tree, key)?,
            None => tree.remove(key)?,
        };
        Ok(old.map(drop).ok_or_else(no_such_key)?)
    }

    fn scan(
        &self,
        tree: Option<String>,
        part: &PartArgs,
        stop: &AtomicBool,
    ) -> Result<(), LineError> {
        let pairs = self.pairs(&tree, part)?;
        scan::print(pairs.map(|pair| match stop.load(Ordering::Relaxed) {
            true => Err(CommandError::Blocked("interrupted".into()).into()),
            false => pair.map_err(LineError::from),
        }))
    }

    /// Pairs of one moment.
    fn pairs(&self, tree: &Option<String>, part: &PartArgs) -> Result<Pairs<'_>, LineError> {
        let tree = self.find(tree)?;
        Ok(match &self.transaction {
            Some(transaction) => part.within(transaction, &tree)?,
            None => part.of(&self.db.snapshot()?.of(&tree)?)?,
        })
    }

    fn take(&mut self, tree: Option<String>) -> Result<(), LineError> {
        // A put makes a tree that is missing, if it may.
        if self.read_only && tree.is_some() {
            self.find(&tree)?;
        }
        self.tree = tree;
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        if self.transaction.is_some() {
            let what = "a transaction is open already: say `commit` or `abort` before";
            return Err(CommandError::Usage(what.into()));
        }
        self.transaction = Some(self.db.begin());
        Ok(())
    }

    fn commit(&mut self) -> Result<(), LineError> {
        if let Err(error) = self.opened()?.commit() {
            return Err(not_committed(error));
        }
        if self.read_only {
            return Ok(());
        }
        self.db.sync().map_err(|error| {
            let LineError { error, is_final } = error.into();
            let what = "the transaction was committed, but may not be on disk";
            LineError { error: error.context(what), is_final }
        })
    }

    /// Takes the open transaction.
    fn opened(&mut self) -> Result<Transaction> {
        let what = "no transaction is open: `begin` opens one";
        self.transaction.take().ok_or_else(|| CommandError::Usage(what.into()))
    }

    fn writable(&self) -> Result<(), Error> {
        if self.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }
}

/// Why a transaction was not committed.
fn not_committed(error: Error) -> LineError {
    if let Error::Conflict { tree, key } = &error {
        let (tree, key) = (escaped(tree.as_bytes()), escaped(&key[..key.len().min(100)]));
        let message = format!(
            "the transaction was not committed, and nothing of it was written: since it began, \
             others have changed the key {key} of the tree \"{tree}\", which it has read or written. \
             Do it again from `begin`"
        );
        return CommandError::Blocked(message).into();
    }
    let LineError { error, is_final } = error.into();
    LineError { error: error.context("the transaction was not committed"), is_final }
}

fn no_such_key() -> CommandError {
    CommandError::NotFound("no such key".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    fn session() -> (tempfile::TempDir, Session) {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("p.ever")).unwrap();
        (dir, Session::new(db, false))
    }

    impl Session {
        fn ok(&mut self, line: &str) {
            self.run(line.as_bytes(), &GO_ON).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        }
    }

    #[test]
    fn a_conflict_is_told_in_plain_words_and_ends_the_transaction() {
        let (_dir, mut session) = session();
        for line in ["use t", "put k 1", "begin", "get k", "put other 2"] {
            session.ok(line);
        }
        // The shell cannot do this itself; another thread of a program could.
        session.db.tree("t").unwrap().put("k", "changed").unwrap();
        let failed = session.run(b"commit", &GO_ON).err().unwrap();
        let CommandError::Blocked(message) = failed.error else { panic!("{failed:?}") };
        assert!(message.contains("others have changed the key k of the tree \"t\""), "{message}");
        assert!(message.contains("nothing of it was written"), "{message}");
        assert!(!failed.is_final && !session.in_transaction());
        assert_eq!(session.db.tree("t").unwrap().get("other").unwrap(), None);
    }

    #[test]
    fn only_a_pool_that_has_stopped_ends_the_shell() {
        let (_dir, mut session) = session();
        session.ok("put t k v");
        for line in ["get t none", "get none k", "get", "no such", "commit", "get t \"", "put k v"]
        {
            assert!(!session.run(line.as_bytes(), &GO_ON).err().unwrap().is_final, "{line}");
        }
        session.db.clone().close().unwrap();
        for line in ["get t k", "scan t", "put t k v", "del t k", "trees", "stat"] {
            assert!(session.run(line.as_bytes(), &GO_ON).err().unwrap().is_final, "{line}");
        }
        let cause = std::sync::Arc::new(Error::Full { bytes: 1 });
        assert!(LineError::from(Error::Poisoned { cause }).is_final);
        assert!(!LineError::from(Error::Full { bytes: 1 }).is_final);
    }

    #[test]
    fn a_scan_is_of_one_moment() {
        for begin in ["", "begin"] {
            let (_dir, mut session) = session();
            for line in ["use t", "put a 1", "put b 1", "put c 1", begin] {
                session.ok(line);
            }
            for (scan, expected) in [("scan", ["a", "b", "c"]), ("scan --reverse", ["c", "b", "a"])]
            {
                let Ok(Command::Scan(tree, part)) = command::parse(scan.as_bytes()) else {
                    panic!("{scan}")
                };
                let mut pairs = session.pairs(&tree, &part).unwrap();
                let mut seen = vec![pairs.next().unwrap().unwrap()];
                let tree = session.db.tree("t").unwrap();
                tree.delete("b").unwrap();
                tree.put("bb", "2").unwrap();
                seen.extend(pairs.map(Result::unwrap));
                assert_eq!(seen, expected.map(|key| (key.into(), b"1".to_vec())), "{scan}");
                tree.delete("bb").unwrap();
                tree.put("b", "1").unwrap();
            }
        }
    }

    #[test]
    fn a_scan_is_told_to_stop() {
        let (_dir, mut session) = session();
        session.ok("put t k v");
        let failed = session.run(b"scan t", &AtomicBool::new(true)).err().unwrap();
        assert!(matches!(&failed.error, CommandError::Blocked(what) if what == "interrupted"));
        assert!(!failed.is_final);
    }
}
