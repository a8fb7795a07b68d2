//! Code that the compiler refuses because something would live too long.

use everleaf::{Db, Result, TransactionRange, Tree};

fn a_key_after_the_cursor_has_moved(tree: &Tree) -> Result<usize> {
    let mut cursor = tree.cursor();
    cursor.first()?;
    let key = cursor.key();
    cursor.next()?;
    Ok(key.map_or(0, <[u8]>::len))
}

fn a_value_outside_of_its_closure(tree: &Tree) -> Result<usize> {
    let mut seen: &[u8] = &[];
    tree.get_with("k", |value| seen = value)?;
    Ok(seen.len())
}

fn a_transaction_after_its_commit(db: &Db, tree: &Tree) -> Result<()> {
    let tx = db.begin();
    tx.commit()?;
    tx.put(tree, "k", "v")
}

fn pairs_after_the_commit(db: &Db, tree: &Tree) -> Result<usize> {
    let tx = db.begin();
    let pairs = tx.iter(tree);
    tx.commit()?;
    Ok(pairs.count())
}

fn pairs_of_a_transaction_that_is_over<'t>(db: &Db, tree: &Tree) -> Result<TransactionRange<'t>> {
    let tx = db.begin();
    Ok(tx.iter(tree))
}

fn a_batch_twice(db: &Db, tree: &Tree) -> Result<()> {
    let mut batch = db.batch();
    batch.put(tree, "k", "v")?;
    batch.commit()?;
    batch.commit()
}

fn main() {}
