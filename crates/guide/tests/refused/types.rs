//! Code that the compiler refuses with a message that says what to write.

use everleaf::{Db, Result, Tree};

enum Refused {
    SoldOut,
}

fn numbers(db: &Db) -> Result<()> {
    let tree = db.tree("t")?;
    tree.put(7_u64, "a number is no key")?;
    tree.put("key", ("a tuple", "is no value"))?;
    tree.range(1..5);
    Ok(())
}

fn ends(db: &Db) -> Result<()> {
    db.tree("t")?.range(b"apple"..b"pear");
    Ok(())
}

fn an_error_of_the_program(db: &Db, tree: &Tree) -> Result<()> {
    db.transact(|tx| {
        if tx.get(tree, "k")?.is_none() {
            return Err(Refused::SoldOut);
        }
        Ok(())
    })
}

fn a_snapshot_is_no_tree(db: &Db) -> Result<()> {
    let then = db.snapshot()?.of(&db.tree("t")?)?;
    then.put("k", "v")?;
    db.batch().put(&then, "k", "v")
}

fn main() {}
