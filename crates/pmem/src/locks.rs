//! The locks of the standard library, with an order: builds with debug assertions panic where two of them are wanted in
//! two orders, by whichever threads of the process, though nobody waits yet. In other builds they are the library's own.

#[cfg(not(debug_assertions))]
pub use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(debug_assertions)]
pub use ordered::{Condvar, Guard, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

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

/// Runs what locks nothing that others could have: the last owner of something ends it. What this thread holds beside it,
/// of something else, is in no order with it.
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

    /// [`std::sync::Mutex`], with an order.
    #[derive(Debug)]
    pub struct Mutex<T> {
        kind: Kind,
        inner: sync::Mutex<T>,
    }

    /// [`std::sync::RwLock`], with an order: readers have the same as writers, since a writer that waits stops them.
    #[derive(Debug)]
    pub struct RwLock<T> {
        kind: Kind,
        inner: sync::RwLock<T>,
    }

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

    #[inline(always)]
    fn taken<G>(answer: LockResult<G>, held: Held) -> LockResult<Guard<G>> {
        match answer {
            Ok(inner) => Ok(Guard { inner, held }),
            Err(poisoned) => Err(PoisonError::new(Guard { inner: poisoned.into_inner(), held })),
        }
    }

    fn taken_late<G>(
        answer: LockResult<(G, WaitTimeoutResult)>,
        held: Held,
    ) -> LockResult<(Guard<G>, WaitTimeoutResult)> {
        match answer {
            Ok((inner, is_over)) => Ok((Guard { inner, held }, is_over)),
            Err(poisoned) => {
                let (inner, is_over) = poisoned.into_inner();
                Err(PoisonError::new((Guard { inner, held }, is_over)))
            }
        }
    }

    #[inline(always)]
    fn tried<G>(answer: TryLockResult<G>, held: impl FnOnce() -> Held) -> TryLockResult<Guard<G>> {
        match answer {
            Ok(inner) => Ok(Guard { inner, held: held() }),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => {
                let inner = poisoned.into_inner();
                Err(PoisonError::new(Guard { inner, held: held() }).into())
            }
        }
    }

    impl<T> Mutex<T> {
        /// A lock of the kind of this place in the code.
        #[track_caller]
        pub const fn new(value: T) -> Self {
            Self { kind: Kind::here(), inner: sync::Mutex::new(value) }
        }

        /// Waits for the lock and takes it.
        ///
        /// # Errors
        /// A thread panicked with it in hand.
        #[inline(always)]
        #[track_caller]
        pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            self.kind.want(self);
            taken(self.inner.lock(), self.kind.held(self))
        }

        /// Takes the lock if it is free.
        ///
        /// # Errors
        /// It is not, or a thread panicked with it in hand.
        #[inline(always)]
        #[track_caller]
        pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
            tried(self.inner.try_lock(), || self.kind.held(self))
        }

        /// What is behind the lock, which nobody else can have.
        ///
        /// # Errors
        /// A thread panicked with it in hand.
        pub fn get_mut(&mut self) -> LockResult<&mut T> {
            self.inner.get_mut()
        }

        /// What was behind the lock.
        ///
        /// # Errors
        /// A thread panicked with it in hand.
        pub fn into_inner(self) -> LockResult<T> {
            self.inner.into_inner()
        }
    }

    impl<T: Default> Default for Mutex<T> {
        #[track_caller]
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    impl<T> RwLock<T> {
        /// A lock of the kind of this place in the code.
        #[track_caller]
        pub const fn new(value: T) -> Self {
            Self { kind: Kind::here(), inner: sync::RwLock::new(value) }
        }

        /// Waits for the lock and takes it beside other readers.
        ///
        /// # Errors
        /// A writer panicked with it in hand.
        #[inline(always)]
        #[track_caller]
        pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
            self.kind.want(self);
            taken(self.inner.read(), self.kind.held(self))
        }

        /// Waits for the lock and takes it alone.
        ///
        /// # Errors
        /// A writer panicked with it in hand.
        #[inline(always)]
        #[track_caller]
        pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
            self.kind.want(self);
            taken(self.inner.write(), self.kind.held(self))
        }

        /// Takes the lock beside other readers, if no writer has it.
        ///
        /// # Errors
        /// One has it, or one panicked with it in hand.
        #[inline(always)]
        #[track_caller]
        pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
            tried(self.inner.try_read(), || self.kind.held(self))
        }

        /// Takes the lock alone, if it is free.
        ///
        /// # Errors
        /// It is not, or a writer panicked with it in hand.
        #[inline(always)]
        #[track_caller]
        pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
            tried(self.inner.try_write(), || self.kind.held(self))
        }

        /// What is behind the lock, which nobody else can have.
        ///
        /// # Errors
        /// A writer panicked with it in hand.
        pub fn get_mut(&mut self) -> LockResult<&mut T> {
            self.inner.get_mut()
        }

        /// What was behind the lock.
        ///
        /// # Errors
        /// A writer panicked with it in hand.
        pub fn into_inner(self) -> LockResult<T> {
            self.inner.into_inner()
        }
    }

    impl<T: Default> Default for RwLock<T> {
        #[track_caller]
        fn default() -> Self {
            Self::new(T::default())
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
            guard.held.want_again();
            taken(self.0.wait(guard.inner), guard.held)
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
            guard.held.want_again();
            let Guard { inner, held } = guard;
            taken_late(self.0.wait_timeout(inner, most), held)
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
            guard.held.want_again();
            let Guard { inner, held } = guard;
            taken_late(self.0.wait_timeout_while(inner, most, goes_on), held)
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

    impl<T> Ordered for Mutex<T> {
        #[track_caller]
        fn want(&self) {
            self.kind.want(self);
        }
    }

    impl<T> Ordered for RwLock<T> {
        #[track_caller]
        fn want(&self) {
            self.kind.want(self);
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;

    /// What is said when `second` panics after `first`.
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
