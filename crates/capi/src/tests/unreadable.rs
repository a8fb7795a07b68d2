//! Scans over a pair whose value is damaged: what stands before it and behind it is given, in trees and in transactions.

use std::fs;

use super::*;
use crate::codes::*;
use crate::pairs::*;
use crate::pool::everleaf_close;

/// A fill begins and ends between them.
const DAMAGED: [u8; 2] = *b"dh";

/// A pool of the pairs `a` to `i`, of which two have values of their own pages that are damaged in the file.
fn damaged(path: &Path) -> Own<everleaf_db> {
    let db = open(path, null());
    let there = tree(&db, c"t");
    for key in b'a'..=b'i' {
        let value = vec![key ^ 0xA5; if DAMAGED.contains(&key) { 20_000 } else { 3 }];
        let ((k, kn), (v, vn)) = (place(slice::from_ref(&key)), place(&value));
        // SAFETY: all pointers are good.
        assert!(fine(unsafe { everleaf_put(there.0, k, kn, v, vn) }));
    }
    // SAFETY: it is open.
    assert!(fine(unsafe { everleaf_close(db.0) }));
    drop((there, db));
    let mut bytes = fs::read(path).expect("a file");
    for key in DAMAGED {
        let run = bytes.windows(1000).position(|run| run.iter().all(|byte| *byte == key ^ 0xA5));
        bytes[run.expect("the value is in the file") + 500] ^= 1;
    }
    fs::write(path, bytes).expect("room");
    open(path, null())
}

/// The keys that a scan gives, and the codes of its calls that give none.
fn walk(scan: &Own<everleaf_scan>) -> (String, Vec<c_int>) {
    let (mut keys, mut codes) = (String::new(), Vec::new());
    // Pairs of 8 + 1 + 3 bytes: two fit.
    let mut buffer = [0_u8; 25];
    for _ in 0..20 {
        let (mut pairs, mut used) = (0, 0);
        let place = buffer.as_mut_ptr().cast();
        // SAFETY: all pointers are good.
        let code = unsafe {
            everleaf_scan_fill(scan.0, place, 25, &raw mut pairs, &raw mut used, null_mut())
        };
        match code {
            EVERLEAF_OK => {
                keys.extend((0..pairs).map(|i| char::from(buffer[used / pairs * i + 8])))
            }
            other => codes.push(other),
        }
        if code == EVERLEAF_NOT_FOUND {
            break;
        }
    }
    (keys, codes)
}

#[test]
fn a_scan_passes_over_a_pair_that_cannot_be_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let db = damaged(&dir.path().join("p.ever"));
    let there = tree(&db, c"t");
    // SAFETY: all pointers are good.
    let txn = made(everleaf_txn_free, |out| unsafe { everleaf_txn_begin(db.0, 0, 0, out) });
    let txn = txn.expect("a transaction");
    for (flags, order) in [(0, "abcefgi"), (EVERLEAF_REVERSE, "igfecba")] {
        // SAFETY: all pointers are good.
        let of_tree = made(everleaf_scan_free, |out| unsafe {
            everleaf_scan_new(there.0, null(), 0, null(), 0, flags, out)
        });
        // SAFETY: all pointers are good.
        let of_txn = made(everleaf_scan_free, |out| unsafe {
            everleaf_txn_scan_new(txn.0, there.0, null(), 0, null(), 0, flags, out)
        });
        for scan in [of_tree, of_txn].into_iter().flatten() {
            let codes = vec![EVERLEAF_CORRUPT, EVERLEAF_CORRUPT, EVERLEAF_NOT_FOUND];
            assert_eq!(walk(&scan), (order.to_owned(), codes));
        }
    }
}

/// Those that a transaction does not come to at all: it needs the values of before, and there are none.
#[test]
fn a_scan_of_a_transaction_passes_over_pairs_whose_step_fails() {
    let dir = tempfile::tempdir().expect("a folder");
    let db = damaged(&dir.path().join("p.ever"));
    let there = tree(&db, c"t");
    // SAFETY: all pointers are good.
    let txn = made(everleaf_txn_free, |out| unsafe { everleaf_txn_begin(db.0, 0, 0, out) });
    let txn = txn.expect("a transaction");
    let ((k, kn), (v, vn)) = (place(b"a"), place(b"new"));
    // SAFETY: all pointers are good. The first read decides on the moment that the transaction sees.
    assert!(fine(unsafe { everleaf_txn_contains(txn.0, there.0, k, kn) }));
    for key in &DAMAGED {
        let (k, kn) = place(slice::from_ref(key));
        // SAFETY: all pointers are good.
        assert!(fine(unsafe { everleaf_put(there.0, k, kn, v, vn) }));
    }
    for (flags, order) in
        [(0, "abcefgi"), (EVERLEAF_REVERSE, "igfecba"), (EVERLEAF_KEYS_ONLY, "abcefgi")]
    {
        // SAFETY: all pointers are good.
        let scan = made(everleaf_scan_free, |out| unsafe {
            everleaf_txn_scan_new(txn.0, there.0, null(), 0, null(), 0, flags, out)
        });
        let codes = vec![EVERLEAF_CORRUPT, EVERLEAF_CORRUPT, EVERLEAF_NOT_FOUND];
        assert_eq!(walk(&scan.expect("a scan")), (order.to_owned(), codes), "{flags}");
    }
    // From the pair itself on, so that the first step fails.
    let (k, kn) = place(&DAMAGED[..1]);
    for (flags, order) in [(0, "efgi"), (EVERLEAF_REVERSE | EVERLEAF_TO_INCLUDED, "cba")] {
        let (from, to) = if flags == 0 { ((k, kn), (null(), 0)) } else { ((null(), 0), (k, kn)) };
        // SAFETY: all pointers are good.
        let scan = made(everleaf_scan_free, |out| unsafe {
            everleaf_txn_scan_new(txn.0, there.0, from.0, from.1, to.0, to.1, flags, out)
        });
        let damages = if flags == 0 { 2 } else { 1 };
        let codes = [vec![EVERLEAF_CORRUPT; damages], vec![EVERLEAF_NOT_FOUND]].concat();
        assert_eq!(walk(&scan.expect("a scan")), (order.to_owned(), codes), "{flags}");
    }
}
