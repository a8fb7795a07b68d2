//! The order in which this process takes locks.
//!
//! Builds with debug assertions keep account of it: for each kind of lock, which is the place in the code that makes it,
//! the kinds that were wanted while one of it was held. A thread that wants two in another order than some thread did
//! before panics and names the places, though nobody waits yet. So a test of one thread finds what would stop two of
//! them for ever once in a million runs. Locks of one kind have an order among themselves, at which this does not look; nor
//! does it at page latches, of which [`rules`](crate::rules) keep account.
//!
//! Other builds keep no account, and pay nothing.

#[cfg(debug_assertions)]
pub(crate) use kept::{Alone, Held, Kind};

#[cfg(debug_assertions)]
mod kept {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::panic::Location;
    use std::sync;
    use std::sync::atomic::{AtomicU32, Ordering};

    type Place = &'static Location<'static>;

    /// Where locks of it are made.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) struct Kind(Place);

    #[derive(Debug, Clone, Copy)]
    struct Lock {
        kind: Kind,
        address: usize,
        /// Where it was taken.
        taken: Place,
    }

    /// Of each kind, those that were wanted with one of it in hand: where that one was taken, and where they were wanted.
    type Order = BTreeMap<Kind, BTreeMap<Kind, (Place, Place)>>;

    const KNOWN_PAIRS: usize = 64;

    static ORDER: sync::Mutex<Order> = sync::Mutex::new(BTreeMap::new());
    /// The process that keeps the account.
    static KEEPER: AtomicU32 = AtomicU32::new(0);

    thread_local! {
        static HELD: RefCell<Vec<Lock>> = const { RefCell::new(Vec::new()) };
        /// How many of them count not, counted from the first, since what comes is nobody else's.
        static APART: Cell<usize> = const { Cell::new(0) };
        /// Some of what this thread knows to be in the order, by the addresses of their places.
        static KNOWN: [Cell<(usize, usize)>; KNOWN_PAIRS] =
            const { [const { Cell::new((0, 0)) }; KNOWN_PAIRS] };
    }

    /// While it is there, what this thread held before counts not: what it locks now is nobody else's.
    #[derive(Debug)]
    pub(crate) struct Alone {
        apart: usize,
    }

    impl Alone {
        pub fn begin() -> Self {
            let held = HELD.try_with(|held| held.borrow().len()).unwrap_or(0);
            Self { apart: APART.replace(held) }
        }
    }

    impl Drop for Alone {
        fn drop(&mut self) {
            APART.set(self.apart);
        }
    }

    /// A lock that this thread holds.
    #[derive(Debug)]
    pub(crate) struct Held {
        kind: Kind,
        address: usize,
    }

    impl Kind {
        #[track_caller]
        pub const fn here() -> Self {
            Self(Location::caller())
        }

        /// This thread is about to wait for that lock.
        #[track_caller]
        pub fn want<L>(self, lock: &L) {
            want(self, std::ptr::from_ref(lock).addr());
        }

        /// This thread has taken that lock.
        #[track_caller]
        pub fn held<L>(self, lock: &L) -> Held {
            let (address, taken) = (std::ptr::from_ref(lock).addr(), Location::caller());
            // A thread that ends has no list any more.
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if held.capacity() == 0 {
                    // For all that a thread ever holds: in the middle of a step memory may be refused.
                    held.reserve(64);
                }
                held.push(Lock { kind: self, address, taken });
            });
            Held { kind: self, address }
        }
    }

    impl Held {
        /// This thread gives the lock back to wait for something, and will want it again.
        #[track_caller]
        pub fn want_again(&self) {
            want(self.kind, self.address);
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                let at = held.iter().rposition(|lock| lock.address == self.address);
                at.map(|at| held.remove(at));
            });
        }
    }

    #[track_caller]
    fn want(kind: Kind, address: usize) {
        let wanted = Location::caller();
        let _ = HELD.try_with(|held| {
            let held = held.borrow();
            for lock in held.iter().skip(APART.get()).filter(|lock| lock.address != address) {
                note((lock.kind, lock.taken), kind, wanted);
            }
        });
    }

    /// A lock of kind `then` is wanted with one of kind `first` in hand.
    fn note((first, taken): (Kind, Place), then: Kind, wanted: Place) {
        let pair = (std::ptr::from_ref(first.0).addr(), std::ptr::from_ref(then.0).addr());
        let at = (pair.0 / 8).wrapping_add(pair.1 / 8 * 5) % KNOWN_PAIRS;
        let is_known = first == then || KNOWN.with(|known| known[at].replace(pair)) == pair;
        if !is_known && !std::thread::panicking() && is_keeper() {
            note_new((first, taken), then, wanted);
        }
    }

    /// A fork keeps no account: a thread of the parent may have had it in hand, and nobody gives it back here.
    #[cold]
    fn is_keeper() -> bool {
        let this = std::process::id();
        let keeper = KEEPER.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed);
        keeper.is_ok() || keeper == Err(this)
    }

    #[cold]
    fn note_new((first, taken): (Kind, Place), then: Kind, wanted: Place) {
        let mut order = ORDER.lock().unwrap_or_else(sync::PoisonError::into_inner);
        if order.get(&first).is_some_and(|after| after.contains_key(&then)) {
            return;
        }
        if let Some(way) = way(&order, then, first) {
            drop(order);
            let others: String = way.iter().map(|one| format!("; {one}")).collect();
            panic!(
                "locks in two orders: {} is wanted at {wanted} with {}, taken at {taken}{others}",
                then.0, first.0
            );
        }
        order.entry(first).or_default().insert(then, (taken, wanted));
    }

    /// How kind `from` comes before kind `to`, if it does.
    fn way(order: &Order, from: Kind, to: Kind) -> Option<Vec<String>> {
        let mut came: BTreeMap<Kind, Kind> = BTreeMap::new();
        let mut next = vec![from];
        while let Some(kind) = next.pop() {
            for then in order.get(&kind).into_iter().flat_map(BTreeMap::keys) {
                if *then != from && !came.contains_key(then) {
                    came.insert(*then, kind);
                    next.push(*then);
                }
            }
        }
        let (mut way, mut then) = (Vec::new(), to);
        while then != from {
            let first = *came.get(&then)?;
            let (taken, wanted) = order[&first][&then];
            let said =
                format!("{} was wanted at {wanted} with {}, taken at {taken}", then.0, first.0);
            way.push(said);
            then = first;
        }
        Some(way)
    }
}

#[cfg(not(debug_assertions))]
pub(crate) use free::Alone;

#[cfg(not(debug_assertions))]
mod free {
    #[derive(Debug)]
    pub(crate) struct Alone;

    impl Alone {
        #[inline(always)]
        pub fn begin() -> Self {
            Self
        }
    }
}
