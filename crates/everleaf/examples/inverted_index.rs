//! Full-text search: which documents contain all of some words?
//!
//! ```sh
//! cargo run --release -p everleaf --example inverted_index [POOL]
//! ```
//!
//! | tree        | key                         | value                        |
//! |-------------|-----------------------------|------------------------------|
//! | `documents` | the document's number       | the text                     |
//! | `postings`  | the pair (word, document)   | how often the word is in it  |
//!
//! `everleaf::keys` encodes numbers and pairs in their order. So the documents of a word lie side by side in `postings`, in
//! the order of their numbers, and two lists are intersected by walking both at once.
//!
//! A document and its postings change in one transaction: neither a crash nor another thread leaves a posting without
//! its document.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;

use everleaf::{Db, Transaction, Tree, keys};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Search {
    db: Db,
    documents: Tree,
    postings: Tree,
}

impl Search {
    fn open(path: &Path) -> Result<Search> {
        let db = Db::open(path)?;
        let (documents, postings) = (db.tree("documents")?, db.tree("postings")?);
        Ok(Search { db, documents, postings })
    }

    /// Adds a document, or replaces it.
    fn put(&self, id: u64, text: &str) -> Result<()> {
        self.db.try_transact(|tx| {
            self.forget(tx, id)?;
            for (word, count) in words(text) {
                tx.put(&self.postings, keys::encode((&word, id)), count.to_le_bytes())?;
            }
            Ok(tx.put(&self.documents, keys::encode(id), text)?)
        })
    }

    /// Removes a document; false if there is none.
    fn remove(&self, id: u64) -> Result<bool> {
        self.db.try_transact(|tx| self.forget(tx, id))
    }

    /// Removes a document in a transaction. The text tells which postings it has; what is removed here may be put
    /// again by the same transaction.
    fn forget(&self, tx: &Transaction, id: u64) -> Result<bool> {
        let Some(text) = tx.remove(&self.documents, keys::encode(id))? else { return Ok(false) };
        for word in words(str::from_utf8(&text)?).keys() {
            tx.delete(&self.postings, keys::encode((word, id)))?;
        }
        Ok(true)
    }

    /// The documents that contain a word, in order.
    fn having(&self, word: &str) -> impl Iterator<Item = Result<u64>> {
        let list = keys::starting_with(word.to_lowercase());
        self.postings.range(list).keys().map(|key| Ok(posting(&key?)?.1))
    }

    /// The documents that contain both words: whichever list is behind goes on.
    fn having_both(&self, a: &str, b: &str) -> Result<Vec<u64>> {
        let (mut list_a, mut list_b) = (self.having(a), self.having(b));
        let (mut at_a, mut at_b) = (list_a.next().transpose()?, list_b.next().transpose()?);
        let mut both = Vec::new();
        while let (Some(id_a), Some(id_b)) = (at_a, at_b) {
            if id_a == id_b {
                both.push(id_a);
            }
            let order = id_a.cmp(&id_b);
            if order != Ordering::Greater {
                at_a = list_a.next().transpose()?;
            }
            if order != Ordering::Less {
                at_b = list_b.next().transpose()?;
            }
        }
        Ok(both)
    }

    /// The words that begin with some letters. After each word the cursor skips its list: it goes to the
    /// word's last document, and on.
    fn completions(&self, letters: &str) -> Result<Vec<String>> {
        let (mut found, mut cursor) = (Vec::new(), self.postings.cursor());
        cursor.seek(keys::encode(letters))?;
        while let Some(key) = cursor.key() {
            let (word, _) = posting(key)?;
            if !word.starts_with(letters) {
                break;
            }
            cursor.seek_for_prev(keys::encode((&word, u64::MAX)))?;
            cursor.next()?;
            found.push(word);
        }
        Ok(found)
    }
}

/// The words of a text in lower case, and how often each is in it. A key is limited to 65,536 bytes;
/// words that are longer than any real one are cut.
fn words(text: &str) -> BTreeMap<String, u32> {
    let mut words = BTreeMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase().chars().take(64).collect();
        *words.entry(word).or_default() += 1;
    }
    words
}

/// The word and the document of a key of `postings`.
fn posting(key: &[u8]) -> everleaf::Result<(String, u64)> {
    keys::decode(key)
}

/// The program: 2,000 documents. Document `n` contains a word for each of its small divisors.
pub fn run(path: &Path) -> Result<()> {
    const DIVISORS: [(u64, &str); 5] =
        [(2, "even"), (3, "cat"), (5, "catalog"), (7, "seven"), (11, "eleven")];
    let text = |id: u64| {
        let words = DIVISORS.iter().filter(|(n, _)| id.is_multiple_of(*n)).map(|(_, word)| *word);
        format!("Number {id}: {}.", words.collect::<Vec<_>>().join(", "))
    };
    let multiples = |n: u64| (1..=2000).filter(move |id: &u64| id.is_multiple_of(n));
    let search = Search::open(path)?;
    (1..=2000).try_for_each(|id| search.put(id, &text(id)))?;

    assert_eq!(search.having("cat").collect::<Result<Vec<_>>>()?, multiples(3).collect::<Vec<_>>());
    assert_eq!(search.having_both("EVEN", "seven")?, multiples(14).collect::<Vec<_>>());
    assert_eq!(search.having_both("even", "odd")?, []);
    assert_eq!(search.completions("cat")?, ["cat", "catalog"]);
    assert_eq!(search.completions("e")?, ["eleven", "even"]);

    // Documents go and change, and their postings go with them.
    assert!(search.remove(14)? && !search.remove(14)?);
    search.put(28, "Not a number: a cat.")?;
    let left: Vec<_> = multiples(14).filter(|id| ![14, 28].contains(id)).collect();
    assert_eq!(search.having_both("even", "seven")?, left);
    assert!(search.having("cat").any(|id| id.is_ok_and(|id| id == 28)));
    drop(search);

    // The postings say what the texts say, after reopening too.
    let search = Search::open(path)?;
    let mut expected = BTreeSet::new();
    for pair in &search.documents {
        let (id, text) = pair?;
        let id: u64 = keys::decode(id)?;
        expected.extend(words(str::from_utf8(&text)?).keys().map(|word| keys::encode((word, id))));
    }
    let stored =
        search.postings.iter().map(|pair| Ok(pair?.0.into())).collect::<Result<BTreeSet<_>>>()?;
    assert_eq!(stored, expected);
    writeln!(stdout(), "{} documents, {} postings", search.documents.iter().count(), stored.len())?;
    Ok(search.db.close()?)
}

/// Runs in the pool that is named, or in one that is removed at the end.
fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(path) => run(path.as_ref()),
        None => run(&tempfile::tempdir()?.path().join("search.ever")),
    }
}
