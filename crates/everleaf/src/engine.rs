//! The store behind the facade: maps in memory and a log of epochs.
//!
//! A stand-in with the real promises and none of the speed of opening: the file is a header and
//! then one checksummed frame for each epoch that changed something, replayed at open.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::ops::Bound;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::batch::Step;
use crate::{Damage, Error, Options, Pair, Result, Stats, TreeStats};

const MAGIC: [u8; 16] = *b"everleaf standin";
const CREATE: u32 = u32::MAX;
const REMOVE: u32 = u32::MAX;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Names a tree inside the engine.
#[derive(Clone)]
pub(crate) struct TreeId(u32);

/// A tree's number, a key, and its value unless the key is removed.
type Change<'a> = (u32, &'a [u8], Option<&'a [u8]>);

#[derive(Default)]
struct State {
    trees: Vec<(String, Map)>,
    frame: Vec<u8>,
    epoch: u64,
    failed: Option<Error>,
    closed: bool,
}

struct Shared {
    state: Mutex<State>,
    file: Mutex<File>,
    durable: AtomicU64,
    wake: Condvar,
    read_only: bool,
}

pub(crate) struct Engine {
    shared: Arc<Shared>,
    clock: Mutex<Option<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Engine> {
        let (file, state) = open_file(path, options)?;
        let shared = Arc::new(Shared {
            durable: AtomicU64::new(state.epoch - 1),
            state: Mutex::new(state),
            file: Mutex::new(file),
            wake: Condvar::new(),
            read_only: options.read_only,
        });
        let (inner, interval) = (Arc::clone(&shared), options.interval);
        let clock = (!options.read_only).then(|| std::thread::spawn(move || inner.tick(interval)));
        Ok(Engine { shared, clock: Mutex::new(clock) })
    }

    pub(crate) fn create_tree(&self, name: &str) -> Result<TreeId> {
        if let Some(id) = self.find_tree(name)? {
            return Ok(id);
        }
        let mut state = self.shared.write()?;
        put(&mut state.frame, CREATE, name.as_bytes(), None);
        state.trees.push((name.to_owned(), Map::new()));
        Ok(TreeId(state.trees.len() as u32 - 1))
    }

    pub(crate) fn find_tree(&self, name: &str) -> Result<Option<TreeId>> {
        let state = lock(&self.shared.state);
        Ok(state.trees.iter().position(|(known, _)| known == name).map(|id| TreeId(id as u32)))
    }

    pub(crate) fn tree_names(&self) -> Result<Vec<String>> {
        let mut names: Vec<_> =
            lock(&self.shared.state).trees.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        Ok(names)
    }

    pub(crate) fn get(&self, tree: &TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(lock(&self.shared.state).trees[tree.0 as usize].1.get(key).cloned())
    }

    pub(crate) fn contains(&self, tree: &TreeId, key: &[u8]) -> Result<bool> {
        Ok(lock(&self.shared.state).trees[tree.0 as usize].1.contains_key(key))
    }

    pub(crate) fn insert(
        &self,
        tree: &TreeId,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        Ok(apply(&mut *self.shared.write()?, tree.0, key, Some(value)))
    }

    pub(crate) fn remove(&self, tree: &TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(apply(&mut *self.shared.write()?, tree.0, key, None))
    }

    /// Applies all steps in one epoch.
    pub(crate) fn commit(&self, steps: &[Step]) -> Result<()> {
        let mut state = self.shared.write()?;
        for step in steps {
            apply(&mut state, step.tree.0, &step.key, step.value.as_deref());
        }
        Ok(())
    }

    /// Appends pairs between the bounds to `out`, from the low end upwards or, with `reverse`,
    /// from the high end downwards; about `limit` of them at most, and at least one if there is
    /// one. Returns whether more may follow.
    pub(crate) fn scan(
        &self,
        tree: &TreeId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
        out: &mut Vec<Pair>,
    ) -> Result<bool> {
        let state = lock(&self.shared.state);
        let range = state.trees[tree.0 as usize].1.range::<[u8], _>((from, to));
        let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        let before = out.len();
        match reverse {
            false => out.extend(range.take(limit).map(pair)),
            true => out.extend(range.rev().take(limit).map(pair)),
        }
        Ok(out.len() - before == limit)
    }

    pub(crate) fn epoch(&self) -> u64 {
        lock(&self.shared.state).epoch
    }

    pub(crate) fn durable_epoch(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        if self.shared.read_only {
            return Ok(());
        }
        let epoch = self.epoch();
        while self.durable_epoch() < epoch {
            self.shared.flush()?;
        }
        Ok(())
    }

    pub(crate) fn stats(&self) -> Result<Stats> {
        let file_bytes = match lock(&self.shared.file).metadata() {
            Ok(metadata) => metadata.len(),
            Err(error) => return Err(Error::io("read the length of the pool", error)),
        };
        let state = lock(&self.shared.state);
        let count = |(name, map): &(String, Map)| TreeStats {
            name: name.clone(),
            entries: map.len() as u64,
            depth: 1,
            nodes_by_level: vec![1],
            fill: 1.0,
            key_bytes: map.keys().map(|key| key.len() as u64).sum(),
            value_bytes: map.values().map(|value| value.len() as u64).sum(),
        };
        let mut trees: Vec<_> = state.trees.iter().map(count).collect();
        trees.sort_by(|a, b| a.name.cmp(&b.name));
        let (epoch, durable_epoch) = (state.epoch, self.durable_epoch());
        Ok(Stats { trees, file_bytes, epoch, durable_epoch, ..Stats::default() })
    }

    pub(crate) fn check(&self) -> Result<Vec<Damage>> {
        Ok(Vec::new())
    }

    pub(crate) fn close(&self) -> Result<()> {
        let closed = std::mem::replace(&mut lock(&self.shared.state).closed, true);
        if closed {
            return Ok(());
        }
        self.shared.wake.notify_all();
        if let Some(clock) = lock(&self.clock).take() {
            clock.join().expect("the clock thread does not panic");
        }
        let result = self.sync();
        let _ = lock(&self.shared.file).unlock();
        result
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl Shared {
    fn write(&self) -> Result<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        if state.closed {
            return Err(Error::Invalid { what: "the pool was closed".into() });
        }
        match &state.failed {
            Some(cause) => Err(Error::Poisoned { cause: Arc::new(cause.clone()) }),
            None => Ok(state),
        }
    }

    fn tick(&self, interval: Duration) {
        let mut state = lock(&self.state);
        while !state.closed && state.failed.is_none() {
            state =
                self.wake.wait_timeout(state, interval).map_or_else(|e| e.into_inner().0, |w| w.0);
            drop(state);
            let _ = self.flush();
            state = lock(&self.state);
        }
    }

    /// Ends the epoch and makes it durable.
    fn flush(&self) -> Result<()> {
        let mut file = lock(&self.file);
        let mut state = lock(&self.state);
        if let Some(cause) = &state.failed {
            return Err(Error::Poisoned { cause: Arc::new(cause.clone()) });
        }
        let (payload, epoch) = (std::mem::take(&mut state.frame), state.epoch);
        state.epoch += 1;
        drop(state);
        if !payload.is_empty() {
            let mut frame = (payload.len() as u64).to_le_bytes().to_vec();
            frame.extend(u64::from(crc32c::crc32c(&payload)).to_le_bytes());
            frame.extend(payload);
            if let Err(error) = file.write_all(&frame).and_then(|()| file.sync_data()) {
                let error = Error::io("write an epoch", error);
                lock(&self.state).failed = Some(error.clone());
                return Err(error);
            }
        }
        self.durable.store(epoch, Ordering::Release);
        Ok(())
    }
}

fn apply(state: &mut State, tree: u32, key: &[u8], value: Option<&[u8]>) -> Option<Vec<u8>> {
    put(&mut state.frame, tree, key, value);
    let map = &mut state.trees[tree as usize].1;
    match value {
        Some(value) => map.insert(key.to_vec(), value.to_vec()),
        None => map.remove(key),
    }
}

fn put(frame: &mut Vec<u8>, tree: u32, key: &[u8], value: Option<&[u8]>) {
    frame.extend(tree.to_le_bytes());
    frame.extend((key.len() as u32).to_le_bytes());
    frame.extend(value.map_or(REMOVE, |value| value.len() as u32).to_le_bytes());
    frame.extend(key);
    frame.extend(value.unwrap_or_default());
}

fn open_file(path: &Path, options: &Options) -> Result<(File, State)> {
    let io = |error| Error::io(format!("open {}", path.display()), error);
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io(io::Error::other("not an ordinary file")));
    }
    let fresh = options.create && !options.read_only && !path.exists();
    let mut open = OpenOptions::new();
    open.read(true).append(!options.read_only).create_new(fresh).mode(0o600);
    let mut file = open.open(path).map_err(io)?;
    let locked = if options.read_only { file.try_lock_shared() } else { file.try_lock() };
    match locked {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: path.into() }),
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    if fresh {
        file.write_all(&MAGIC).map_err(io)?;
        return Ok((file, State { epoch: 1, ..State::default() }));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io)?;
    let (state, sound_bytes) = replay(&bytes)?;
    if !options.read_only {
        file.set_len(sound_bytes).map_err(io)?;
    }
    Ok((file, state))
}

/// Applies the complete frames and returns how long they are, the header included.
fn replay(bytes: &[u8]) -> Result<(State, u64)> {
    let mut state = State { epoch: 1, ..State::default() };
    let Some(mut rest) = bytes.strip_prefix(&MAGIC) else {
        return Err(Error::Foreign { what: "it does not start as a pool does".into() });
    };
    while let Some((payload, after)) = frame(rest) {
        let mut payload = payload;
        while let Some((tree, key, value)) = step(&mut payload) {
            match tree {
                CREATE => state.trees.push((String::from_utf8_lossy(key).into(), Map::new())),
                tree => drop(apply(&mut state, tree, key, value)),
            }
        }
        rest = after;
    }
    state.frame.clear();
    Ok((state, (bytes.len() - rest.len()) as u64))
}

fn frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let (payload, rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
    (u64::from(crc32c::crc32c(payload)) == u64::from_le_bytes(*sum)).then_some((payload, rest))
}

fn step<'a>(bytes: &mut &'a [u8]) -> Option<Change<'a>> {
    let mut word = || {
        let (word, rest) = bytes.split_first_chunk::<4>()?;
        *bytes = rest;
        Some(u32::from_le_bytes(*word))
    };
    let (tree, key_bytes, value_bytes) = (word()?, word()?, word()?);
    let mut take = |length: u32| {
        let (part, rest) = bytes.split_at_checked(length as usize)?;
        *bytes = rest;
        Some(part)
    };
    let key = take(key_bytes)?;
    Some((tree, key, if value_bytes == REMOVE { None } else { Some(take(value_bytes)?) }))
}
