//! The state of the shell between two lines: the pool, the tree in use, the open transaction.

use std::path::Path;

use everleaf::{Db, Error, Transaction, Tree};

use super::command::{self, Command, Sure};
use crate::escape::{escape, escaped};
use crate::failure::{CommandError, Result};
use crate::format::InputPair;
use crate::keys::{BoundArgs, for_each_key};
use crate::load::{InputArgs, import};
use crate::message::tell;
use crate::numbers::{counted, for_stdout};
use crate::output::{self, print};
use crate::scan::{self, Pairs, PartArgs, ShowArgs};
use crate::{backup, check, count, pool, stat, trees};

/// An open pool and what lines before have made of it.
pub struct Session {
    /// The pool.
    pub db: Db,
    read_only: bool,
    /// The tree of commands that name none.
    pub tree: Option<String>,
    transaction: Option<Transaction>,
}

/// The source of a session's lines: a script or a person.
pub trait Speaker {
    /// Whether what runs shall stop.
    fn stops(&self) -> bool;

    /// Whether to do what the question says. The author of a script has agreed by writing it.
    fn agrees(&mut self, question: &str) -> Result<bool>;
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

    /// Does what a line says.
    pub fn run(&mut self, line: &[u8], who: &mut dyn Speaker) -> Result<Then, LineError> {
        match command::parse(line).map_err(CommandError::Usage)? {
            Command::Nothing => {}
            Command::Get(tree, key) => self.get(tree, &key)?,
            Command::Put(tree, key, value) => self.put(tree, &key, &value)?,
            Command::Import(tree, file, input) => self.import(tree, &file, &input, who)?,
            Command::Del(tree, key) => self.del(tree, &key)?,
            Command::DelRange(tree, keys, sure) => self.del_range(tree, &keys, sure, who)?,
            Command::Scan(tree, part, show) => self.scan(tree, &part, &show, who)?,
            Command::Count(tree, keys) => print(self.count(tree, &keys, who)?)?,
            Command::Trees => print(trees::text(&self.db)?)?,
            Command::Use(tree) => self.take(tree)?,
            Command::Rename(from, to) => self.rename(&from, &to)?,
            Command::Clear(tree, sure) => self.clear(tree, sure, who)?,
            Command::Drop(tree, sure) => self.drop_tree(&tree, sure, who)?,
            Command::Begin => self.begin()?,
            Command::Commit => self.commit()?,
            Command::Abort => self.opened()?.abort(),
            Command::Stat(tree, walk) => {
                let tree = tree.map(|name| self.find(&Some(name))).transpose()?;
                print(stat::text(&self.db, tree.as_ref(), walk, false)?)?;
            }
            Command::Check => self.check()?,
            Command::Backup(new) => self.backup(&new)?,
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
        pool::check_pair(key, value)?;
        // A tree is made at once, also inside of a transaction.
        let tree = self.db.tree(self.name(&tree)?)?;
        match &self.transaction {
            Some(transaction) => transaction.put(&tree, key, value)?,
            None => tree.put(key, value)?,
        }
        Ok(())
    }

    /// Sets the values of many keys, or notes that for the commit.
    fn import(
        &self,
        tree: Option<String>,
        file: &Path,
        input: &InputArgs,
        who: &dyn Speaker,
    ) -> Result<(), LineError> {
        self.writable()?;
        let name = self.name(&tree)?;
        let mut tree = None;
        import(file, input, |InputPair { key, value, .. }| {
            go_on(who)?;
            // Made for the first pair.
            let tree = match &tree {
                Some(tree) => tree,
                None => tree.insert(self.db.tree(name)?),
            };
            match &self.transaction {
                Some(transaction) => transaction.put(tree, key, value)?,
                None => tree.put(key, value)?,
            }
            Ok(())
        })
    }

    fn del(&mut self, tree: Option<String>, key: &[u8]) -> Result<(), LineError> {
        self.writable()?;
        let tree = self.find(&tree)?;
        let old = match &self.transaction {
            Some(transaction) => transaction.remove(&tree, key)?,
            None => tree.remove(key)?,
        };
        Ok(old.map(drop).ok_or_else(no_such_key)?)
    }

    /// Removes keys one by one, or notes that for the commit.
    fn del_range(
        &mut self,
        tree: Option<String>,
        keys: &BoundArgs,
        sure: Sure,
        who: &mut dyn Speaker,
    ) -> Result<(), LineError> {
        self.writable()?;
        let tree = self.find(&tree)?;
        let pairs = self.pairs_within(&tree, keys, who)?;
        let what = format!("remove {} of the tree {}", counted(pairs, "pair"), named(&tree));
        agreed(sure, &what, who)?;
        let bounds = keys.bounds()?;
        let removed = match &mut self.transaction {
            None => tree.remove_range(bounds)?,
            Some(transaction) => {
                let within = transaction.range(&tree, bounds).map(|pair| pair.map(|(key, _)| key));
                let within = within.collect::<everleaf::Result<Vec<_>>>()?;
                within.iter().try_for_each(|key| transaction.delete(&tree, key))?;
                within.len() as u64
            }
        };
        Ok(output::say(format_args!("removed {}", for_stdout(removed)))?)
    }

    fn scan(
        &self,
        tree: Option<String>,
        part: &PartArgs,
        show: &ShowArgs,
        who: &mut dyn Speaker,
    ) -> Result<(), LineError> {
        if self.transaction.is_none() && show.is_of_keys() {
            let tree = self.db.snapshot()?.of(&self.find(&tree)?)?;
            return scan::print_keys(tree.cursor(), part, show, || go_on(who));
        }
        let pairs = self.pairs(&tree, part)?;
        scan::print(pairs.map(|pair| go_on(who).and_then(|()| Ok(pair?))), show)
    }

    /// The output of `count`.
    fn count(
        &self,
        tree: Option<String>,
        keys: &BoundArgs,
        who: &mut dyn Speaker,
    ) -> Result<Vec<u8>, LineError> {
        let tree = match self.name(&tree) {
            Err(_) if keys.is_none() && self.transaction.is_none() => {
                return Ok(count::lines(&count::trees(&self.db)?));
            }
            _ => self.find(&tree)?,
        };
        Ok(count::line(self.pairs_within(&tree, keys, who)?))
    }

    /// How many pairs a tree has within bounds, at one moment.
    fn pairs_within(
        &self,
        tree: &Tree,
        keys: &BoundArgs,
        who: &mut dyn Speaker,
    ) -> Result<u64, LineError> {
        if let Some(transaction) = &self.transaction {
            let pairs = transaction.range(tree, keys.bounds()?);
            return pairs
                .map(|pair| go_on(who).and_then(|()| Ok(pair.map(drop)?)))
                .try_fold(0, |count, pair| pair.map(|()| count + 1));
        }
        if keys.is_none() {
            return Ok(tree.len()?);
        }
        let cursor = self.db.snapshot()?.of(tree)?.cursor();
        for_each_key(cursor, &keys.bounds()?, false, u64::MAX, |_| go_on(who))
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

    fn rename(&mut self, from: &str, to: &str) -> Result<(), LineError> {
        self.writable()?;
        self.outside_of_a_transaction("rename")?;
        if !self.db.rename_tree(from, to)? {
            return Err(pool::missing(from).into());
        }
        if self.tree.as_deref() == Some(from) {
            self.tree = Some(to.to_owned());
        }
        Ok(())
    }

    fn clear(
        &self,
        tree: Option<String>,
        sure: Sure,
        who: &mut dyn Speaker,
    ) -> Result<(), LineError> {
        self.writable()?;
        self.outside_of_a_transaction("clear")?;
        let tree = self.find(&tree)?;
        let pairs = counted(tree.len()?, "pair");
        agreed(sure, &format!("remove all {pairs} of the tree {}", named(&tree)), who)?;
        let removed = tree.clear()?;
        Ok(output::say(format_args!("removed {}", for_stdout(removed)))?)
    }

    fn drop_tree(&self, name: &str, sure: Sure, who: &mut dyn Speaker) -> Result<(), LineError> {
        self.writable()?;
        self.outside_of_a_transaction("drop")?;
        let tree = self.find(&Some(name.to_owned()))?;
        let pairs = counted(tree.len()?, "pair");
        agreed(sure, &format!("remove the tree {} with its {pairs}", named(&tree)), who)?;
        match self.db.drop_tree(name)? {
            true => Ok(()),
            false => Err(pool::missing(name).into()),
        }
    }

    /// Prints each damage; that there is one is an error.
    fn check(&self) -> Result<(), LineError> {
        let damages = self.db.check()?;
        print(check::lines(&damages))?;
        if let Some(damaged) = check::damaged(&damages) {
            return Err(damaged.into());
        }
        tell(check::looked_at(&self.db)?);
        Ok(())
    }

    fn backup(&self, new: &Path) -> Result<(), LineError> {
        self.outside_of_a_transaction("backup")?;
        tell(backup::copy(&self.db, new)?);
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

    /// Says that a command is no part of a transaction, if one is open.
    fn outside_of_a_transaction(&self, command: &str) -> Result<()> {
        if self.transaction.is_none() {
            return Ok(());
        }
        Err(CommandError::Usage(format!(
            "{command} cannot be a part of a transaction: say `commit` or `abort` before"
        )))
    }

    fn writable(&self) -> Result<(), Error> {
        if self.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }
}

/// Why a transaction was not committed.
fn not_committed(error: Error) -> LineError {
    if let Error::Conflict { tree, key, .. } = &error {
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

/// A tree's name for a message.
fn named(tree: &Tree) -> String {
    escaped(tree.name().as_bytes())
}

/// Whether nobody has asked what runs to stop.
fn go_on(who: &dyn Speaker) -> Result<(), LineError> {
    if who.stops() { Err(CommandError::Blocked("interrupted".into()).into()) } else { Ok(()) }
}

/// Asks before much is removed, unless the line says that it is meant.
fn agreed(sure: Sure, what: &str, who: &mut dyn Speaker) -> Result<()> {
    if sure || who.agrees(what)? {
        return Ok(());
    }
    Err(CommandError::Blocked("nothing was removed".into()))
}

fn no_such_key() -> CommandError {
    CommandError::NotFound("no such key".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says the same to each question.
    struct Says {
        stop: bool,
        yes: bool,
        asked: Vec<String>,
    }

    impl Speaker for Says {
        fn stops(&self) -> bool {
            self.stop
        }

        fn agrees(&mut self, question: &str) -> Result<bool> {
            self.asked.push(question.to_owned());
            Ok(self.yes)
        }
    }

    fn says(stop: bool, yes: bool) -> Says {
        Says { stop, yes, asked: Vec::new() }
    }

    fn session() -> (tempfile::TempDir, Session) {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("p.ever")).unwrap();
        (dir, Session::new(db, false))
    }

    impl Session {
        fn ok(&mut self, line: &str) {
            self.run(line.as_bytes(), &mut says(false, true))
                .unwrap_or_else(|error| panic!("{line}: {error:?}"));
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
        let failed = session.run(b"commit", &mut says(false, true)).err().unwrap();
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
            assert!(
                !session.run(line.as_bytes(), &mut says(false, true)).err().unwrap().is_final,
                "{line}"
            );
        }
        session.db.clone().close().unwrap();
        for line in [
            "get t k",
            "scan t",
            "put t k v",
            "del t k",
            "trees",
            "stat",
            "count t",
            "count",
            "check",
        ] {
            assert!(
                session.run(line.as_bytes(), &mut says(false, true)).err().unwrap().is_final,
                "{line}"
            );
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
                let Ok(Command::Scan(tree, part, _)) = command::parse(scan.as_bytes()) else {
                    panic!("{scan}")
                };
                let mut pairs = session.pairs(&tree, &part).unwrap();
                let mut seen = vec![pairs.next().unwrap().unwrap()];
                let tree = session.db.tree("t").unwrap();
                tree.delete("b").unwrap();
                tree.put("bb", "2").unwrap();
                seen.extend(pairs.map(Result::unwrap));
                assert_eq!(seen, expected.map(|key| (key.into(), "1".into())), "{scan}");
                tree.delete("bb").unwrap();
                tree.put("b", "1").unwrap();
            }
        }
    }

    #[test]
    fn a_scan_is_told_to_stop() {
        let (_dir, mut session) = session();
        session.ok("put t k v");
        for begin in ["", "begin"] {
            session.ok(begin);
            for line in ["scan t", "scan t --keys", "count t --prefix k", "del t --prefix k"] {
                let failed = session.run(line.as_bytes(), &mut says(true, true)).err().unwrap();
                let is_told =
                    matches!(&failed.error, CommandError::Blocked(what) if what == "interrupted");
                assert!(is_told && !failed.is_final, "{line}: {failed:?}");
            }
        }
        assert!(session.db.tree("t").unwrap().contains("k").unwrap());
    }

    #[test]
    fn much_is_removed_only_if_that_is_meant() {
        let (_dir, mut session) = session();
        for line in ["put t a 1", "put t b 2", "use t"] {
            session.ok(line);
        }
        for (line, question) in [
            ("del --prefix a", "remove 1 pair of the tree t"),
            ("del t --to x", "remove 2 pairs of the tree t"),
            ("clear", "remove all 2 pairs of the tree t"),
            ("drop t", "remove the tree t with its 2 pairs"),
        ] {
            let mut refuses = says(false, false);
            let failed = session.run(line.as_bytes(), &mut refuses).err().unwrap();
            assert!(matches!(failed.error, CommandError::Blocked(_)), "{line}");
            assert_eq!(refuses.asked, [question], "{line}");
            assert_eq!(session.db.tree("t").unwrap().len().unwrap(), 2, "{line}");
        }
        // Commands with --yes, and those for one key, ask nobody.
        for line in ["del a", "del --prefix b --yes", "put c 3", "clear --yes", "drop t --yes"] {
            let mut refuses = says(false, false);
            assert!(session.run(line.as_bytes(), &mut refuses).is_ok(), "{line}");
            assert!(refuses.asked.is_empty(), "{line}");
        }
        assert_eq!(session.db.tree_names().unwrap(), [""; 0]);
    }
}
