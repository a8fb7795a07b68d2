//! The locks of the standard library, with an order: builds with debug assertions panic where two of them are wanted in
//! two orders, by whichever threads of the process, though nobody waits yet. In other builds they are the library's own.

#[cfg(not(debug_assertions))]
pub use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(debug_assertions)]
pub use ordered::{
    Condvar, Guard, Lock, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use crate::order::Alone;

/// A lock that is in the order.
pub(crate) trait Ordered {
    /// This thread is about to wait until it can take the lock.
    #[inline(always)]
    fn want(&self) {}
}

#[cfg(not(debug_assertions))]
impl<T> Ordered for Mutex<T> {}

#[cfg(not(debug_assertions))]
impl<T> Ordered for RwLock<T> {}

/// Runs a function that locks nothing that others could have: the last owner of something ends it. Locks of other
/// things that this thread holds meanwhile are in no order with it.
#[inline(always)]
pub fn of_last_owner<T>(end: impl FnOnce() -> T) -> T {
    let _alone = Alone::begin();
    end()
}

#[cfg(debug_assertions)]
mod ordered {
    use std::ops::{Deref, DerefMut};
    use std::sync::{
        self, LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult,
    };
    use std::time::Duration;

    use super::Ordered;
    use crate::order::{Held, Kind};

    /// A lock of the standard library, of the kind of the place in the code that makes it.
    #[derive(Debug)]
    pub struct Lock<L> {
        kind: Kind,
        inner: L,
    }

    /// [`std::sync::Mutex`], with an order.
    pub type Mutex<T> = Lock<sync::Mutex<T>>;
    /// [`std::sync::RwLock`], with an order: readers have the same as writers, since a writer that waits stops them.
    pub type RwLock<T> = Lock<sync::RwLock<T>>;

    /// [`std::sync::Condvar`], for a [`Mutex`] with an order.
    #[derive(Debug, Default)]
    pub struct Condvar(sync::Condvar);

    /// A lock in hand. It is given back when this is dropped.
    #[derive(Debug)]
    #[must_use]
    pub struct Guard<G> {
        // The lock is free before it counts as free.
        inner: G,
        held: Held,
    }

    /// A [`Mutex`] in hand.
    pub type MutexGuard<'m, T> = Guard<sync::MutexGuard<'m, T>>;
    /// An [`RwLock`] in the hand of a reader.
    pub type RwLockReadGuard<'m, T> = Guard<sync::RwLockReadGuard<'m, T>>;
    /// An [`RwLock`] in the hand of a writer.
    pub type RwLockWriteGuard<'m, T> = Guard<sync::RwLockWriteGuard<'m, T>>;

    impl<G: Deref> Deref for Guard<G> {
        type Target = G::Target;
        #[inline(always)]
        fn deref(&self) -> &G::Target {
            &self.inner
        }
    }

    impl<G: DerefMut> DerefMut for Guard<G> {
        #[inline(always)]
        fn deref_mut(&mut self) -> &mut G::Target {
            &mut self.inner
        }
    }

    fn mapped<A, B>(answer: LockResult<A>, to: impl FnOnce(A) -> B) -> LockResult<B> {
        match answer {
            Ok(inner) => Ok(to(inner)),
            Err(poisoned) => Err(PoisonError::new(to(poisoned.into_inner()))),
        }
    }

    impl<L> Lock<L> {
        #[track_caller]
        const fn of(inner: L) -> Self {
            Self { kind: Kind::here(), inner }
        }

        /// The guard of a lock that this thread has waited for, and has.
        #[track_caller]
        fn taken<G>(&self, answer: LockResult<G>) -> LockResult<Guard<G>> {
            let held = self.kind.held(self);
            mapped(answer, |inner| Guard { inner, held })
        }

        /// The guard of a lock that this thread has not waited for.
        #[track_caller]
        fn tried<G>(&self, answer: TryLockResult<G>) -> TryLockResult<Guard<G>> {
            let answer = match answer {
                Err(TryLockError::WouldBlock) => return Err(TryLockError::WouldBlock),
                Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
                Ok(inner) => Ok(inner),
            };
            Ok(self.taken(answer)?)
        }
    }

    impl<L> Ordered for Lock<L> {
        #[track_caller]
        fn want(&self) {
            self.kind.want(self);
        }
    }

    impl<L: Default> Default for Lock<L> {
        #[track_caller]
        fn default() -> Self {
            Self::of(L::default())
        }
    }

    impl<T> Mutex<T> {
        /// A lock of the kind of this place in the code.
        #[track_caller]
        pub const fn new(value: T) -> Self {
            Self::of(sync::Mutex::new(value))
        }

        /// Waits for the lock and takes it.
        ///
        /// # Errors
        /// A thread panicked with it in hand.
        #[track_caller]
        pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            self.want();
            self.taken(self.inner.lock())
        }

        /// Takes the lock if it is free.
        ///
        /// # Errors
        /// It is not, or a thread panicked with it in hand.
        #[track_caller]
        pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
            self.tried(self.inner.try_lock())
        }

        /// The value behind the lock, which nobody else can have.
        ///
        /// # Errors
        /// A thread panicked with it in hand.
        pub fn get_mut(&mut self) -> LockResult<&mut T> {
            self.inner.get_mut()
        }
    }

    impl<T> RwLock<T> {
        /// A lock of the kind of this place in the code.
        #[track_caller]
        pub const fn new(value: T) -> Self {
            Self::of(sync::RwLock::new(value))
        }

        /// Waits for the lock and takes it beside other readers.
        ///
        /// # Errors
        /// A writer panicked with it in hand.
        #[track_caller]
        pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
            self.want();
            self.taken(self.inner.read())
        }

        /// Waits for the lock and takes it alone.
        ///
        /// # Errors
        /// A writer panicked with it in hand.
        #[track_caller]
        pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
            self.want();
            self.taken(self.inner.write())
        }

        /// Takes the lock beside other readers, if no writer has it.
        ///
        /// # Errors
        /// One has it, or one panicked with it in hand.
        #[track_caller]
        pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
            self.tried(self.inner.try_read())
        }

        /// Takes the lock alone, if it is free.
        ///
        /// # Errors
        /// It is not, or a writer panicked with it in hand.
        #[track_caller]
        pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
            self.tried(self.inner.try_write())
        }

        /// The value behind the lock, which nobody else can have.
        ///
        /// # Errors
        /// A writer panicked with it in hand.
        pub fn get_mut(&mut self) -> LockResult<&mut T> {
            self.inner.get_mut()
        }
    }

    impl Condvar {
        /// One that nobody waits for.
        pub const fn new() -> Self {
            Self(sync::Condvar::new())
        }

        /// Gives the lock back, waits to be notified, or for nothing, and takes the lock again.
        ///
        /// # Errors
        /// A thread panicked with it in hand.
        #[track_caller]
        pub fn wait<'m, T>(&self, guard: MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
            let Guard { inner, held } = guard;
            held.want_again();
            mapped(self.0.wait(inner), |inner| Guard { inner, held })
        }

        /// As [`wait`](Self::wait), but for `most` at the most.
        ///
        /// # Errors
        /// A thread panicked with the lock in hand.
        #[track_caller]
        pub fn wait_timeout<'m, T>(
            &self,
            guard: MutexGuard<'m, T>,
            most: Duration,
        ) -> LockResult<(MutexGuard<'m, T>, WaitTimeoutResult)> {
            let Guard { inner, held } = guard;
            held.want_again();
            mapped(self.0.wait_timeout(inner, most), |(inner, is_over)| {
                (Guard { inner, held }, is_over)
            })
        }

        /// As [`wait_timeout`](Self::wait_timeout), as long as `goes_on` says so.
        ///
        /// # Errors
        /// A thread panicked with the lock in hand.
        #[track_caller]
        pub fn wait_timeout_while<'m, T>(
            &self,
            guard: MutexGuard<'m, T>,
            most: Duration,
            goes_on: impl FnMut(&mut T) -> bool,
        ) -> LockResult<(MutexGuard<'m, T>, WaitTimeoutResult)> {
            let Guard { inner, held } = guard;
            held.want_again();
            mapped(self.0.wait_timeout_while(inner, most, goes_on), |(inner, is_over)| {
                (Guard { inner, held }, is_over)
            })
        }

        /// Wakes all who wait.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }

        /// Wakes one of those who wait.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;

    /// The message of the panic when `second` panics after `first`.
    fn said(first: impl FnOnce(), second: impl FnOnce()) -> String {
        first();
        let panic = catch_unwind(AssertUnwindSafe(second)).expect_err("it is not in order");
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn two_locks_in_two_orders_are_found_by_one_thread() {
        let (a, b) = (Mutex::new(()), RwLock::new(()));
        let said = said(
            || drop((a.lock(), b.read())),
            || {
                let _b = b.write();
                let _a = a.lock();
            },
        );
        assert_eq!(said.matches(file!()).count(), 8, "{said}");
        // Nobody panicked with them in hand but here.
        assert!(b.try_read().is_err() && a.try_lock().is_ok());
    }

    #[test]
    fn three_locks_of_which_each_two_are_in_order_are_found() {
        let (a, b, c) = (Mutex::new(0), Mutex::new(0), Mutex::new(0));
        let said = said(
            || {
                drop((a.lock(), b.lock()));
                drop((b.lock(), c.lock()));
                drop((a.lock(), c.lock()));
            },
            || drop((c.lock(), a.lock())),
        );
        assert!(said.starts_with("locks in two orders"), "{said}");
    }

    #[test]
    fn a_lock_that_is_wanted_again_after_a_wait_is_wanted() {
        let (a, b, condvar) = (Mutex::new(()), Mutex::new(()), Condvar::new());
        let wait = || {
            let one = a.lock().expect("no panic");
            let _two = b.lock().expect("no panic");
            drop(condvar.wait_timeout(one, Duration::from_millis(1)));
        };
        assert!(said(|| {}, wait).starts_with("locks in two orders"));
    }

    #[test]
    fn what_is_tried_waits_for_nobody_and_is_held_all_the_same() {
        let (a, b, c) = (Mutex::new(()), Mutex::new(()), Mutex::new(()));
        drop((a.lock(), b.lock()));
        drop((b.lock(), a.try_lock()));
        drop((c.try_lock(), a.lock()));
        assert!(said(|| {}, || drop((b.lock(), c.lock()))).starts_with("locks in two orders"));
    }

    #[test]
    fn what_the_last_owner_locks_is_in_no_order_with_what_it_holds() {
        let (a, b, c) = (Mutex::new(()), Mutex::new(()), Mutex::new(()));
        drop((a.lock(), b.lock()));
        let _b = b.lock().expect("no panic");
        of_last_owner(|| drop((a.lock(), c.lock())));
        assert!(said(|| {}, || drop((c.lock(), a.lock()))).starts_with("locks in two orders"));
    }
}
