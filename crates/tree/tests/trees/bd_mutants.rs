//! Every flush, fence and store of a BD+Tree and of the ends of its epochs, left out one at a time,
//! and every two stores in a row swapped. Kinds of calls that nobody notices anywhere have a reason
//! why nothing is lost.

use std::collections::BTreeMap;
use std::panic::catch_unwind;

use crate::bd::scripts::{Scene, merging, scenes};
use crate::bd::{Ran, Setting, explore, run_with, stage};
use everleaf_crash_check::trace::invoke_mark;
use everleaf_crash_check::{Act, Explorer, Mutation};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Counts, SEQ_WORD};
use everleaf_pool::kind;

/// In leaves of 4 slots: words of a page.
const SLOTS: u32 = 4;
const PAGE: u32 = 16;

/// The act that was going on, a call that is left out or comes too late, and the part of the pool that it is about.
type Site = (&'static str, &'static str, String);

fn of_line(line: u32, owners: &[u8]) -> &'static str {
    let (no, line) = (line * 8 / PAGE, line * 8 % PAGE);
    match (no, owners.get(no as usize).copied().unwrap_or_default(), line) {
        (0, _, 0) => "the durable epoch",
        (_, kind::MAP, _) => "the map",
        (_, kind::NODE | kind::FREE, 0) => "a leaf's line 0",
        (_, kind::NODE | kind::FREE, _) => "entries",
        _ => "others",
    }
}

fn of_store(word: u32, owners: &[u8]) -> &'static str {
    let no = word / PAGE;
    match (owners.get(no as usize).copied().unwrap_or_default(), word % PAGE) {
        (kind::MAP, word) if (no, word as usize) == (0, SEQ_WORD) => "the durable epoch",
        (kind::NODE | kind::FREE, 0) => "a leaf's epoch",
        (kind::NODE | kind::FREE, 1 | 2) => "bitmaps",
        (kind::NODE | kind::FREE, 5) => "kind and sibling",
        (kind::NODE | kind::FREE, 3..8) => "fingerprints",
        (kind::NODE | kind::FREE, word) if word % 2 == 0 => "a key",
        (kind::NODE | kind::FREE, _) => "a value",
        _ => of_line(word / 8, owners),
    }
}

/// The part of the pool that each call of a kind is about, and the act in which it comes.
#[derive(Default)]
struct Calls {
    stores: Vec<(&'static str, &'static str)>,
    flushes: Vec<(&'static str, &'static str)>,
    fences: Vec<(&'static str, &'static str)>,
}

impl Calls {
    fn of(ran: &Ran, acts: &[Act]) -> Self {
        let mut calls = Self::default();
        let (mut act, mut last) = ("", "nothing");
        for (at, event) in ran.record.events.iter().enumerate() {
            match *event {
                Event::Store { word, .. } => {
                    calls.stores.push((act, of_store(word, &ran.owners)));
                }
                Event::Flush { line, .. } => {
                    last = of_line(line, &ran.owners);
                    calls.flushes.push((act, last));
                }
                Event::Fence { .. } => calls.fences.push((act, last)),
                Event::Mark { mark, .. } if mark.is_multiple_of(2) => {
                    let done = &ran.record.events[at..];
                    let ends =
                        |e: &Event| matches!(*e, Event::Mark { mark: m, .. } if m == mark + 1);
                    let own = &done[..done.iter().position(ends).expect("it has returned")];
                    let fenced = own.iter().any(|e| matches!(e, Event::Fence { .. }));
                    let number = (0..).find(|i| invoke_mark(*i) == mark).expect("a mark");
                    act = match acts[number as usize] {
                        Act::Tick | Act::Sync => "end of an epoch",
                        Act::Reclaim => "free",
                        _ if fenced => "split",
                        _ => "write",
                    };
                }
                Event::Mark { .. } => {}
            }
        }
        calls
    }

    /// The fault's call, counted from the first after the open.
    fn site(&self, fault: Mutation) -> Site {
        let named = |(act, hit): (&'static str, &str), what| (act, what, hit.to_string());
        match fault {
            Mutation::DropFlush(k) => named(self.flushes[k as usize], "no flush of"),
            Mutation::DropFence(k) => named(self.fences[k as usize], "no fence after"),
            Mutation::DropStore(k) => named(self.stores[k as usize], "no store of"),
            Mutation::SwapStores(k) => {
                let ((act, hit), next) = (self.stores[k as usize], self.stores[k as usize + 1].1);
                (act, "late store of", format!("{hit}, after {next}"))
            }
        }
    }
}

/// The same fault, as the medium counts: from before the open.
fn shifted(fault: Mutation, by: Counts) -> Mutation {
    match fault {
        Mutation::DropFlush(k) => Mutation::DropFlush(k + by.flushes),
        Mutation::DropFence(k) => Mutation::DropFence(k + by.fences),
        Mutation::DropStore(k) => Mutation::DropStore(k + by.stores),
        Mutation::SwapStores(k) => Mutation::SwapStores(k + by.stores),
    }
}

/// Why nothing is lost by any fault of a site.
fn reason((act, what, hit): &Site) -> Option<&'static str> {
    let of = |what: &str| hit.split(',').next() == Some(what);
    Some(match (*act, *what, hit.as_str()) {
        ("free", "no flush of" | "no fence after", "the map") => {
            "a page that leaks, and the next rebuild returns it"
        }
        ("split", "no fence after", "the map") => {
            "the new leaf's fence covers it, and comes before the leaf is linked"
        }
        (
            "free",
            "late store of",
            "the map, after kind and sibling" | "kind and sibling, after bitmaps",
        ) => "of a page that has left the chain, whatever it says",
        ("split" | "write", "late store of", _)
            if of("a key") || of("a value") || of("fingerprints") =>
        {
            "no epoch shows the entry before the running one has ended, with all its lines flushed"
        }
        ("write", "late store of", "a leaf's epoch, after a key") => "no epoch shows that slot",
        ("write" | "split", "late store of", "bitmaps, after a leaf's epoch") => {
            "it is the running epoch's, the last to be brought forward; no crash goes back to that"
        }
        // With the left leaf's epoch: what comes next is the new leaf.
        ("split", "late store of", _) if of("a leaf's epoch") || of("bitmaps") => {
            "of the new leaf, which nothing leads to before it is durable"
        }
        ("split", "late store of", "kind and sibling, after a key") => {
            "of the new leaf, which nothing leads to before it is durable"
        }
        // The last store of a merge: what comes next is not its own.
        (
            "free",
            "late store of",
            "kind and sibling, after a key"
            | "kind and sibling, after a value"
            | "kind and sibling, after the durable epoch",
        ) => "of a page that has left the chain, whatever it says",
        ("free", "late store of", _) if of("a key") || of("a value") => {
            "what a merge moves is durable before a bitmap shows it"
        }
        ("free", "late store of", "fingerprints, after bitmaps") => {
            "until the sibling is stored, later in the line, the leaf to the right has the entry, and a rebuild drops it here"
        }
        ("free", "late store of", "bitmaps, after kind and sibling") => {
            "it is of the epoch before the last, to which a crash goes back only while the last is being ended"
        }
        ("free", "late store of", "a leaf's epoch, after a key") => "no epoch shows that slot",
        (
            "free",
            "late store of",
            "a leaf's epoch, after bitmaps" | "bitmaps, after a leaf's epoch",
        ) => "it is the running epoch's bitmap, and no crash goes back to that",
        _ => return None,
    })
}

#[test]
fn every_kind_of_call_is_needed() {
    let explorer = Explorer::new().depth(1).exhaustive(128).page_exhaustive(64).samples(24);
    let mut table: BTreeMap<Site, [u64; 2]> = BTreeMap::new();
    let plain = scenes(SLOTS.into()).into_iter().map(|scene| (scene, false));
    let merged = merging(SLOTS.into()).into_iter().map(|scene| (scene, true));
    for (Scene { what, before, acts }, merges) in plain.chain(merged) {
        let setting = Setting { merges, ..Setting::default() };
        let crash = |fault| {
            let ran = || {
                let ran = run_with(&stage(SLOTS, &before), &acts, fault, &setting)?;
                explore(&ran, &explorer, 4).map(|_| ran)
            };
            catch_unwind(ran).unwrap_or_else(|_| Err("a panic".into()))
        };
        let sound = crash(None).unwrap_or_else(|why| panic!("{what}: {why}"));
        let calls = Calls::of(&sound, &acts);
        // Without a store of a merge the chain is broken before any crash, and its writers look for a leaf for ever.
        let is_left = |fault: &Mutation| !merges || !matches!(fault, Mutation::DropStore(_));
        for fault in Mutation::each(sound.counts - sound.opening).filter(is_left) {
            let noticed = crash(Some(shifted(fault, sound.opening))).is_err();
            table.entry(calls.site(fault)).or_default()[usize::from(!noticed)] += 1;
        }
    }
    let mut open = Vec::new();
    for (site, [killed, survived]) in &table {
        let (act, what, hit) = site;
        let reason = if *killed == 0 { reason(site) } else { None };
        let because = reason.map_or(String::new(), |reason| format!("; {reason}"));
        println!("{act}: {what} {hit}: {killed} of {} killed{because}", killed + survived);
        if *killed == 0 && reason.is_none() {
            open.push(site);
        }
    }
    assert!(open.is_empty(), "nobody notices: {open:#?}");
}
