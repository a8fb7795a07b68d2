//! Locks of keys and ranges, for transactions that ask for them
//! ([`pessimistic`](crate::TransactionOptions::pessimistic)).
//!
//! ```text
//! such a transaction   locks what it reads and writes, each before it does so, and keeps that to its last attempt
//! another one          waits for what it wants; if the first one waits for it, too, it gets Deadlock at once
//! any other writer     waits before it begins, while it holds nothing of the pool
//! ```
//!
//! Like the [right of way](super::admission), this is about progress, and nothing rests on it: what was read is
//! validated all the same. So a lock may end by the clock, whatever becomes of who has it, and a writer that does not
//! know its key before it has looked, such as a `pop`, waits for no lock.
//!
//! All locks exclude each other. Locks for readers that share would have to be made stronger when one of them writes,
//! which is where most deadlocks come from; and who only reads needs no lock here, for it reads at a cut.
//!
//! **Deadlocks.** A waiter waits for one other, and says for which. All of that is behind one mutex, so a circle is found
//! before it closes, by going from one to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::Instant;

use everleaf_pmem::fallible;
use everleaf_pmem::locks::Condvar;
use everleaf_pmem::sync::wait_timeout;

use super::sync::{Mutex, lock};
use crate::Result;
use crate::spans::{Spans, Upto};

/// Names this memory in errors.
const LOCKS: &str = "the locks of transactions";

/// A part of a tree, by what its handles have in common.
#[derive(Clone, Copy)]
pub(crate) struct Place<'k> {
    pub tree: usize,
    pub start: &'k [u8],
    pub upto: Upto<'k>,
}

impl<'k> Place<'k> {
    pub fn of_key(tree: usize, key: &'k [u8]) -> Self {
        Self { tree, start: key, upto: Upto::Itself }
    }
}

/// Of the word that writers load before they begin: there are owners here. The other bits are the right of way's.
pub(super) const OWNERS: u8 = 1;

/// The locks of a pool's transactions.
pub(crate) struct Locks {
    /// Whether somebody is in the way of writers. The bit is set and cleared with the owners in hand.
    in_the_way: Arc<AtomicU8>,
    owners: Mutex<Vec<Owner>>,
    /// One of them has ended.
    ended: Condvar,
    /// The next owner's.
    id: AtomicU64,
}

/// One transaction and its locks.
struct Owner {
    id: u64,
    /// The one that has locked something last.
    thread: ThreadId,
    /// Its locks keep nobody waiting after that.
    until: Instant,
    spans: Vec<(usize, Spans)>,
    /// Whom it waits for.
    waits_for: Option<u64>,
}

impl Owner {
    fn has(&self, place: Place<'_>, now: Instant) -> bool {
        let is_met = |(tree, spans): &(usize, Spans)| {
            *tree == place.tree && spans.meets(place.start, place.upto)
        };
        now < self.until && self.spans.iter().any(is_met)
    }

    fn add(&mut self, place: Place<'_>) -> Result<()> {
        let no = self.spans.iter().position(|(tree, _)| *tree == place.tree);
        let no = match no {
            Some(no) => no,
            None => {
                fallible::push(&mut self.spans, (place.tree, Spans::default()), LOCKS)?;
                self.spans.len() - 1
            }
        };
        self.spans[no].1.add(place.start, place.upto)
    }

    fn bytes(&self) -> u64 {
        let list = fallible::taken(self.spans.capacity() * size_of::<(usize, Spans)>());
        list + self.spans.iter().map(|(_, spans)| spans.bytes()).sum::<u64>()
    }
}

/// Whether one who waits for `from` would wait for `to` in the end.
fn leads_to(owners: &[Owner], from: u64, to: u64) -> bool {
    let next = |id: &u64| owners.iter().find(|owner| owner.id == *id)?.waits_for;
    // No circle was closed before this one.
    std::iter::successors(Some(from), next).any(|id| id == to)
}

impl Locks {
    pub fn new(in_the_way: Arc<AtomicU8>) -> Self {
        let (owners, ended, id) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        Self { in_the_way, owners, ended, id }
    }

    /// Whether somebody may have locked something.
    #[inline(always)]
    pub fn are_held(&self) -> bool {
        self.in_the_way.load(Ordering::Relaxed) & OWNERS != 0
    }

    /// Waits while a transaction has locked a key that is about to be written. The caller holds nothing.
    #[inline(always)]
    pub fn give(&self, tree: usize, key: &[u8]) {
        if self.are_held() {
            self.wait(Place::of_key(tree, key));
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, place: Place<'_>) {
        let me = std::thread::current().id();
        let mut owners = lock(&self.owners);
        loop {
            let now = Instant::now();
            self.expire(&mut owners, now);
            // Nobody waits for a transaction that its own thread runs.
            let other = owners.iter().find(|owner| owner.thread != me && owner.has(place, now));
            let Some(other) = other else { return };
            let most = other.until - now;
            owners = wait_timeout(&self.ended, &self.owners, owners, most);
        }
    }

    /// Forgets locks that hold nobody up any more, so that those of a transaction that was leaked cost later writers nothing.
    /// One that waits stays, for it comes back.
    fn expire(&self, owners: &mut Vec<Owner>, now: Instant) {
        owners.retain(|owner| now < owner.until || owner.waits_for.is_some());
        self.show(owners);
    }

    fn show(&self, owners: &[Owner]) {
        if owners.is_empty() {
            self.in_the_way.fetch_and(!OWNERS, Ordering::Relaxed);
        }
    }

    /// A number for a transaction that is to lock something.
    pub fn new_owner(&self) -> u64 {
        self.id.fetch_add(1, Ordering::Relaxed)
    }

    /// The locks of a transaction last until then, if they have not ended yet. Says how much memory they take.
    pub fn renew(&self, id: u64, until: Instant) -> u64 {
        let mut owners = lock(&self.owners);
        let own = owners.iter_mut().find(|owner| owner.id == id);
        own.map_or(0, |own| {
            own.until = until;
            own.bytes()
        })
    }

    /// Locks a place for a transaction, whose first lock this may be, after others have ended that have a part of it. Says
    /// how much memory all its locks took before, and how much they take now, which may be less; `None` if another one
    /// waits for this one: then it has no locks any more.
    ///
    /// # Errors
    /// NoMemory.
    pub fn lock(&self, id: u64, until: Instant, place: Place<'_>) -> Result<Option<(u64, u64)>> {
        let me = std::thread::current().id();
        let mut owners = lock(&self.owners);
        if owners.iter().all(|owner| owner.id != id) {
            let own = Owner { id, thread: me, until, spans: Vec::new(), waits_for: None };
            fallible::push(&mut owners, own, LOCKS)?;
            self.in_the_way.fetch_or(OWNERS, Ordering::Relaxed);
        }
        loop {
            let now = Instant::now();
            let other = owners.iter().find(|owner| owner.id != id && owner.has(place, now));
            let waits_for = other.map(|other| (other.id, other.until - now));
            if other.is_some_and(|other| other.thread == me || leads_to(&owners, other.id, id)) {
                drop(owners);
                self.end(id);
                return Ok(None);
            }
            let own = owners.iter_mut().find(|owner| owner.id == id).expect("it is in there");
            own.waits_for = waits_for.map(|(other, _)| other);
            let Some((_, most)) = waits_for else {
                own.thread = me;
                let before = own.bytes();
                own.add(place)?;
                return Ok(Some((before, own.bytes())));
            };
            owners = wait_timeout(&self.ended, &self.owners, owners, most);
        }
    }

    /// When those of a transaction end, if it has some.
    #[cfg(test)]
    pub fn ends(&self, id: u64) -> Option<Instant> {
        lock(&self.owners).iter().find(|owner| owner.id == id).map(|owner| owner.until)
    }

    /// Ends all locks of a transaction.
    pub fn end(&self, id: u64) {
        let mut owners = lock(&self.owners);
        owners.retain(|owner| owner.id != id);
        self.show(&owners);
        self.ended.notify_all();
    }
}
