//! Writes, and what becomes of old payloads.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use everleaf_pmem::{Buffered, BufferedOp, Medium, Result, thread_number};
use everleaf_tree::blink::Condition;

use super::payload::{Payload, Said, Type};
use super::retired::{Retired, Stage};
use super::{Montage, value_of};
use crate::cells::Cell;
use crate::version::Version;

/// Old payloads that a write looks at, at most.
const AT_ONCE: usize = 4;

type Op<'m, M> = BufferedOp<'m, M>;

impl<M: Medium, V: Version> Montage<M, V> {
    pub(super) fn value(&self, cell: Cell) -> Result<u64> {
        Ok(Payload::of(&self.payloads, self.payloads.page(cell)?, cell).value())
    }

    fn said(&self, cell: Cell) -> Result<Said> {
        Ok(Payload::of(&self.payloads, self.payloads.page(cell)?, cell).said())
    }

    /// Changes a payload, and has its line written back at the end of the epoch, unless it waits for that already.
    fn change(
        &self,
        op: &mut Op<'_, M>,
        cell: Cell,
        defers: bool,
        change: impl FnOnce(&Buffered<M>, Payload<'_>),
    ) -> Result<()> {
        let m = self.pool.medium();
        let (page, _held) = self.pool.latch(cell.page)?;
        let payload = Payload::of(&self.payloads, page, cell);
        change(m, payload);
        if defers {
            m.defer(op, page, payload.line());
            if V::has('a') {
                m.defer(op, page, (payload.line() + 1).min(page.slots() / 4));
            }
        }
        Ok(())
    }

    fn write(&self, op: &mut Op<'_, M>, cell: Cell, said: &Said) -> Result<()> {
        let thread = thread_number() as u64;
        self.change(op, cell, true, |m, payload| payload.write(m, thread, said))
    }

    /// Sets the value of a key, if `condition` allows it. Answers the old one, and the epoch.
    ///
    /// # Errors
    /// Full, NoMemory, errors of the medium; nothing has changed then.
    pub fn put(&self, key: u64, value: u64, condition: Condition) -> Result<(Option<u64>, u64)> {
        let _alone = self.lock(key);
        let m = self.pool.medium();
        let Some(old) = self.cell(key)? else {
            if condition == Condition::Present {
                return Ok((None, m.clock()));
            }
            let new = self.payloads.take()?;
            let mut op = m.enter()?;
            let epoch = m.epoch(&op);
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            self.write(&mut op, new, &Said { epoch, kind: Type::Pair, number, key, value })?;
            if let Err(error) = self.tree.put(&key, &value_of(new), Condition::Always) {
                self.change(&mut op, new, false, |m, payload| payload.set_type(m, Type::None))?;
                self.payloads.put_back(new);
                return Err(error);
            }
            self.clean(&mut op)?;
            return Ok((None, epoch));
        };
        let was = self.said(old)?;
        if condition == Condition::Absent {
            return Ok((Some(was.value), was.epoch));
        }
        let spare = if was.epoch == m.clock() { None } else { Some(self.payloads.take()?) };
        let mut op = m.enter()?;
        let epoch = m.epoch(&op);
        match spare {
            Some(new) if epoch != was.epoch => {
                self.write(&mut op, new, &Said { epoch, value, ..was })?;
                self.tree.put(&key, &value_of(new), Condition::Always)?;
                self.retire(Retired { epoch, cell: old, stage: Stage::Pair });
            }
            None if epoch != was.epoch => {
                // An epoch has ended just now.
                drop(op);
                drop(_alone);
                return self.put(key, value, condition);
            }
            spare => {
                spare.into_iter().for_each(|cell| self.payloads.put_back(cell));
                self.change(&mut op, old, false, |m, payload| payload.set_value(m, value))?;
            }
        }
        self.clean(&mut op)?;
        Ok((Some(was.value), epoch))
    }

    /// Removes a key. Answers its value, and the epoch.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn take_out(&self, key: u64) -> Result<(Option<u64>, u64)> {
        let _alone = self.lock(key);
        let m = self.pool.medium();
        let Some(old) = self.cell(key)? else { return Ok((None, m.clock())) };
        let was = self.said(old)?;
        let spare = if was.epoch == m.clock() { None } else { Some(self.payloads.take()?) };
        let mut op = m.enter()?;
        let epoch = m.epoch(&op);
        match spare {
            Some(anti) if epoch != was.epoch => {
                self.write(&mut op, anti, &Said { epoch, kind: Type::Anti, ..was })?;
                self.tree.remove(&key)?;
                self.retire(Retired { epoch, cell: old, stage: Stage::Pair });
                self.retire(Retired { epoch, cell: anti, stage: Stage::Anti });
            }
            None if epoch != was.epoch => {
                drop(op);
                drop(_alone);
                return self.take_out(key);
            }
            spare => {
                spare.into_iter().for_each(|cell| self.payloads.put_back(cell));
                self.change(&mut op, old, false, |m, payload| payload.set_type(m, Type::Anti))?;
                self.tree.remove(&key)?;
                self.retire(Retired { epoch, cell: old, stage: Stage::Anti });
            }
        }
        self.clean(&mut op)?;
        Ok((Some(was.value), epoch))
    }

    fn retire(&self, retired: Retired) {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).push_back(retired);
    }

    /// Takes some old payloads further on their way. Those that were retired first come first, so that an
    /// anti-payload comes after the payloads that it cancels.
    fn clean(&self, op: &mut Op<'_, M>) -> Result<()> {
        let epoch = self.pool.medium().epoch(op);
        for _ in 0..AT_ONCE {
            let mut list = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            // Takes only payloads that were retired in an epoch that is durable for sure.
            if list.front().is_none_or(|retired| retired.epoch + 2 > epoch) {
                break;
            }
            let Retired { cell, stage, .. } = list.pop_front().expect("it is there");
            match stage {
                Stage::Pair => {
                    // Within the lock: the anti-payload behind it counts from this epoch on.
                    self.change(op, cell, true, |m, payload| payload.set_type(m, Type::None))?;
                    self.limbo.retire(cell);
                }
                Stage::Anti => list.push_back(Retired { epoch, cell, stage: Stage::AntiLast }),
                Stage::AntiLast => self.limbo.retire(cell),
            }
        }
        self.limbo.collect(|cell| self.payloads.put_back(cell));
        Ok(())
    }
}
