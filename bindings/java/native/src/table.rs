//! The objects behind the numbers that Java has.
//!
//! A number is `generation (32 bits) | place (28) | shard (4)`. A place that is given back gets the next generation, so an
//! old number never finds a new object; a place whose generations are used up is not used again. A look-up returns a
//! reference of its own: the object lives until the last call with it has ended.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use jni::sys::jlong;
use store::Db;

use crate::failure::{Failure, Result, invalid};

/// Shards, so that threads which make handles do not meet at one lock.
const SHARDS: usize = 16;
const SHARD_BITS: u32 = SHARDS.trailing_zeros();
const PLACE_BITS: u32 = 28;

static NEXT: AtomicUsize = AtomicUsize::new(0);
static TABLE: [RwLock<Shard>; SHARDS] = [const { RwLock::new(Shard::NEW) }; SHARDS];

struct Shard {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

struct Slot {
    /// From 1 on, so that no number is 0.
    generation: u32,
    object: Option<Object>,
}

/// Anything that Java has a number for.
struct Object {
    /// The pool that it is of, if it is of one.
    db: Option<Db>,
    one: Arc<dyn Any + Send + Sync>,
}

/// One kind of object.
pub(crate) trait Kind: Any + Send + Sync {
    /// The name by which users know it.
    const NAME: &'static str;

    /// The pool that it is of, if it is of one.
    fn db(&self) -> Option<&Db>;
}

macro_rules! kind {
    ($kind:ty, $name:literal) => {
        impl $crate::table::Kind for $kind {
            const NAME: &'static str = $name;

            fn db(&self) -> Option<&store::Db> {
                Some(&self.db)
            }
        }
    };
}

pub(crate) use kind;

impl Shard {
    const NEW: Shard = Shard { slots: Vec::new(), free: Vec::new() };

    /// The place and the generation of a new object.
    fn add(&mut self, object: Object) -> Option<(usize, u32)> {
        if let Some(place) = self.free.pop() {
            let slot = &mut self.slots[place];
            slot.object = Some(object);
            return Some((place, slot.generation));
        }
        let place = self.slots.len();
        if place >> PLACE_BITS != 0 {
            return None;
        }
        self.slots.push(Slot { generation: 1, object: Some(object) });
        Some((place, 1))
    }

    fn get(&self, place: usize, generation: u32) -> Option<&Object> {
        let slot = self.slots.get(place).filter(|slot| slot.generation == generation);
        slot.and_then(|slot| slot.object.as_ref())
    }

    fn take(&mut self, place: usize, generation: u32) -> Option<Object> {
        let slot = self.slots.get_mut(place).filter(|slot| slot.generation == generation)?;
        let object = slot.object.take()?;
        if let Some(next) = generation.checked_add(1) {
            slot.generation = next;
            self.free.push(place);
        }
        Some(object)
    }
}

/// Shard, place and generation.
#[inline]
fn parts(number: jlong) -> (usize, usize, u32) {
    let number = number as u64;
    let low = number as u32;
    ((low as usize) & (SHARDS - 1), (low >> SHARD_BITS) as usize, (number >> 32) as u32)
}

/// Gives an object a number.
pub(crate) fn keep<K: Kind>(object: K) -> Result<jlong> {
    let shard = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    let mut places = TABLE[shard].write().unwrap_or_else(PoisonError::into_inner);
    let object = Object { db: object.db().cloned(), one: Arc::new(object) };
    let Some((place, generation)) = places.add(object) else {
        return Err(invalid("there are too many handles: some are not closed"));
    };
    Ok((u64::from(generation) << 32 | (place << SHARD_BITS) as u64 | shard as u64) as jlong)
}

/// The object of a number.
#[inline]
pub(crate) fn find<K: Kind>(number: jlong) -> Result<Arc<K>> {
    let (shard, place, generation) = parts(number);
    let places = TABLE[shard].read().unwrap_or_else(PoisonError::into_inner);
    let one = places.get(place, generation).map(|object| Arc::clone(&object.one));
    drop(places);
    one.and_then(|one| one.downcast().ok()).ok_or(Failure::Gone(K::NAME))
}

/// The pool of whatever a number stands for.
pub(crate) fn db(number: jlong) -> Option<Db> {
    let (shard, place, generation) = parts(number);
    let places = TABLE[shard].read().unwrap_or_else(PoisonError::into_inner);
    places.get(place, generation).and_then(|object| object.db.clone())
}

/// Takes a number away; says whether it stood for something. The object ends here, or with the last call that has it.
pub(crate) fn take(number: jlong) -> bool {
    let (shard, place, generation) = parts(number);
    let taken =
        TABLE[shard].write().unwrap_or_else(PoisonError::into_inner).take(place, generation);
    // Without the lock: the end of a pool may wait for the disk.
    taken.is_some()
}
