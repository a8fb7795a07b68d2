//! Wakers of futures that wait for an epoch; [`durable`](super::durable) says when they are called.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;
use everleaf_pmem::locks::Mutex;
use everleaf_pmem::sync::lock_plain as lock;

/// Names this memory in errors.
const LIST: &str = "the list of those who wait for an epoch";
/// Wakers that are taken at a time: what is called with the lock in hand could want it.
const AT_ONCE: usize = 32;

/// The place of a future in the list. It keeps it until it has its answer.
#[derive(Debug)]
struct Place {
    epoch: u64,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
pub(crate) struct List {
    places: Vec<Place>,
    /// Places that no future has. There is always memory for all of them.
    vacant: Vec<usize>,
}

impl List {
    /// Leaves a waker for `epoch`, at the place `at` that the future has, or gets now. One that was left there
    /// before takes the place of `waker`: dropping it may drop a task, and so another future of this list.
    pub fn leave(
        &mut self,
        at: &mut Option<usize>,
        epoch: u64,
        waker: &mut Option<Waker>,
    ) -> Result<()> {
        let at = match *at {
            Some(at) => at,
            None => *at.insert(self.take(epoch)?),
        };
        let place = &mut self.places[at];
        debug_assert!(place.epoch == epoch, "a place has one future");
        mem::swap(&mut place.waker, waker);
        Ok(())
    }

    /// Takes a place for a future.
    fn take(&mut self, epoch: u64) -> Result<usize> {
        let place = Place { epoch, waker: None };
        if let Some(at) = self.vacant.pop() {
            debug_assert!(self.places[at].waker.is_none(), "a place has one future");
            self.places[at] = place;
            return Ok(at);
        }
        let all = self.places.len() + 1;
        if self.vacant.capacity() < all {
            fallible::more(&mut self.vacant, all, LIST)?;
        }
        fallible::push(&mut self.places, place, LIST)?;
        Ok(all - 1)
    }

    /// A future has its answer, or is gone.
    pub fn forget(&mut self, at: usize) -> Option<Waker> {
        debug_assert!(self.vacant.len() < self.vacant.capacity(), "room for each place");
        self.vacant.push(at);
        self.places[at].waker.take()
    }
}

/// Futures that wait.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub list: Mutex<List>,
}

impl Waits {
    /// Wakes those whose epoch is `upto` or before. Says whether there are others.
    pub fn wake(&self, upto: u64) -> bool {
        let (mut at, mut others) = (0, false);
        loop {
            let mut taken = [const { None }; AT_ONCE];
            let mut n = 0;
            let mut list = lock(&self.list);
            for place in list.places.iter_mut().skip(at) {
                if n == AT_ONCE {
                    break;
                }
                at += 1;
                if place.epoch > upto {
                    others |= place.waker.is_some();
                } else if place.waker.is_some() {
                    taken[n] = place.waker.take();
                    n += 1;
                }
            }
            drop(list);
            for waker in taken.into_iter().flatten() {
                // Its panic is none of the file's.
                let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
            }
            if n < AT_ONCE {
                return others;
            }
        }
    }
}
