//! A store, and who frees the pages of its dropped trees when there is time.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use everleaf_file::workers::{Job, Length, Task};

use super::reclaim::Reclaim;
use super::sync::{Mutex, lock};
use crate::{Error, Result};

/// When it is looked again whether snapshots still need what was dropped, or whether writes go on.
const REST: Duration = Duration::from_millis(50);

/// A store with a thread for what was dropped, as long as there is something. Without threads the calls do that
/// themselves that would wake one.
pub(crate) struct Background<S: Reclaim> {
    /// Before the store, which it uses.
    task: Mutex<Option<Task>>,
    has_threads: bool,
    store: Arc<S>,
}

impl<S: Reclaim> Deref for Background<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.store
    }
}

impl<S: Reclaim> Background<S> {
    /// Goes on with what an earlier process has not finished.
    pub fn new(store: S, has_threads: bool) -> Self {
        let background = Self { task: Mutex::default(), has_threads, store: Arc::new(store) };
        background.reclaim_soon();
        background
    }

    /// Something was dropped: it is to go. A failure leaves it for later, or for the next open.
    pub fn reclaim_soon(&self) {
        if self.trees().dropped.count() == 0 || !self.goes_on() {
            return;
        }
        if !self.has_threads {
            let _ = self.reclaim();
            return;
        }
        let mut task = lock(&self.task);
        if task.is_none() {
            let job = Reclaimer { store: Arc::downgrade(&self.store) };
            *task = Task::new(Length::Long, Box::new(job)).ok();
        }
        if let Some(task) = &*task {
            task.waker().wake();
        }
        drop(task);
        let _ = self.reclaim_with_others();
    }

    /// Without threads: what snapshots have kept from going may go by now.
    pub fn reclaim_alone(&self) {
        if !self.has_threads {
            self.reclaim_soon();
        }
    }

    /// Before the pool ends: nobody uses it in the background any more.
    pub fn stop(&self) {
        let task = lock(&self.task).take();
        drop(task);
    }

    /// Runs an operation of a writer, again if it has found no room and dropped trees could give some.
    #[inline(always)]
    pub fn with_room<T>(&self, mut operation: impl FnMut() -> Result<T>) -> Result<T> {
        let answer = operation();
        match &answer {
            Err(Error::Full { .. }) => self.try_again(answer, &mut operation),
            _ => answer,
        }
    }

    #[cold]
    #[inline(never)]
    fn try_again<T>(
        &self,
        mut answer: Result<T>,
        operation: &mut dyn FnMut() -> Result<T>,
    ) -> Result<T> {
        // Each time somebody has dropped another tree, or a snapshot has let one go.
        while let Err(Error::Full { .. }) = answer
            && self.reclaim().is_ok_and(|some| some)
        {
            answer = operation();
        }
        answer
    }
}

struct Reclaimer<S> {
    store: Weak<S>,
}

impl<S: Reclaim> Job for Reclaimer<S> {
    fn run(&mut self) -> Option<Duration> {
        let store = self.store.upgrade()?;
        if store.trees().dropped.count() == 0 || !store.goes_on() {
            return None;
        }
        match store.reclaim_some() {
            Ok(true) => Some(Duration::ZERO),
            Ok(false) | Err(_) => store.waits().then_some(REST),
        }
    }

    /// The next open goes on.
    fn broke(&mut self) {}
}
