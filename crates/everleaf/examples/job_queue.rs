//! A job queue that survives crashes: enqueue, take, finish, retry.
//!
//! ```sh
//! cargo run --release -p everleaf --example job_queue [POOL]
//! ```
//!
//! Four trees of one pool:
//!
//! | tree      | key                  | value                                       |
//! |-----------|----------------------|---------------------------------------------|
//! | `jobs`    | job                  | attempts so far (4 bytes), then the work    |
//! | `due`     | the pair (time, job) | nothing: jobs that wait, the earliest first |
//! | `running` | job                  | nothing: jobs that a worker has taken       |
//! | `done`    | job                  | the result                                  |
//!
//! `everleaf::keys` encodes the numbers, so that keys sort as the numbers do.
//!
//! A job that moves changes two trees, in one transaction: no crash loses a job or has it in two places, and no two
//! workers take one job. A worker that loses the race for a job is given the next one. Jobs are numbered by a
//! counter in `jobs`, under the empty key.

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use everleaf::{Db, Tree, keys};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Queue {
    db: Db,
    jobs: Tree,
    due: Tree,
    running: Tree,
    done: Tree,
}

/// Where `jobs` has the number of the last job.
const LAST: &str = "";

struct Job {
    id: u64,
    attempts: u32,
    work: String,
}

impl Queue {
    /// Opens the queue. Jobs that were running when the last process ended are due again: returns how many.
    fn open(path: &Path) -> Result<(Queue, usize)> {
        let db = Db::open(path)?;
        let [jobs, due, running, done] =
            [db.tree("jobs")?, db.tree("due")?, db.tree("running")?, db.tree("done")?];
        let mut batch = db.batch();
        for key in running.keys() {
            let id: u64 = keys::decode(key?)?;
            batch.delete(&running, keys::encode(id))?; // Nothing changes before the commit, nor under this loop.
            batch.put(&due, keys::encode((0, id)), "")?;
        }
        let unfinished = batch.len() / 2;
        batch.commit()?;
        Ok((Queue { db, jobs, due, running, done }, unfinished))
    }

    /// Adds a job. It is on disk when this returns, so the caller may forget about it.
    fn enqueue(&self, work: &str, time: u64) -> Result<u64> {
        let one_more = |last: Option<&[u8]>| {
            let last = last.and_then(|last| last.try_into().ok()).map_or(0, u64::from_le_bytes);
            Some((last + 1).to_le_bytes().to_vec())
        };
        // A number that a crash leaves unused does no harm.
        let id = self.jobs.update(LAST, one_more)?.ok_or("a counter has a value")?;
        let id = u64::from_le_bytes(id.as_slice().try_into()?);
        let mut batch = self.db.batch();
        batch.put(&self.jobs, keys::encode(id), record(0, work))?;
        batch.put(&self.due, keys::encode((time, id)), "")?;
        batch.commit()?;
        self.db.sync()?; // Threads that wait here share one sync.
        Ok(id)
    }

    /// Takes the earliest job that is due at `now`. Need not be on disk at once: if a crash forgets
    /// it, the job is due again.
    fn take(&self, now: u64) -> Result<Option<Job>> {
        self.db.try_transact(|tx| {
            let Some(first) = tx.iter(&self.due).next() else { return Ok(None) };
            let (key, _) = first?;
            let (time, id): (u64, u64) = keys::decode(&key)?;
            if time > now {
                return Ok(None);
            }
            let stored = tx.get(&self.jobs, keys::encode(id))?;
            let stored = stored.ok_or("a job that is due has no record")?;
            let (attempts, work) = stored.split_first_chunk().ok_or("a record is too short")?;
            let attempts = u32::from_le_bytes(*attempts) + 1;
            let work = str::from_utf8(work)?.to_owned();
            tx.delete(&self.due, &key)?;
            tx.put(&self.running, keys::encode(id), "")?;
            tx.put(&self.jobs, keys::encode(id), record(attempts, &work))?;
            Ok(Some(Job { id, attempts, work }))
        })
    }

    /// Ends a job. Its result is in the same batch, so a crash keeps both or runs the job again. Reads
    /// nothing: no other thread changes the keys of a job that this one has taken.
    fn finish(&self, job: &Job, result: &str) -> Result<()> {
        let mut batch = self.db.batch();
        batch.delete(&self.running, keys::encode(job.id))?;
        batch.delete(&self.jobs, keys::encode(job.id))?;
        batch.put(&self.done, keys::encode(job.id), result)?;
        Ok(batch.commit()?) // Of `db.with(Durability::Sync)` if somebody is told about the result.
    }

    /// Gives a job that failed back. It is due again later, after each failure twice as late.
    fn retry(&self, job: &Job, now: u64) -> Result<()> {
        let mut batch = self.db.batch();
        batch.delete(&self.running, keys::encode(job.id))?;
        batch.put(&self.due, keys::encode((now + (1 << job.attempts.min(20)), job.id)), "")?;
        Ok(batch.commit()?)
    }
}

fn record(attempts: u32, work: &str) -> Vec<u8> {
    [&attempts.to_le_bytes(), work.as_bytes()].concat()
}

/// The program: 100 jobs, of which every tenth fails once; then a crash with three jobs under way.
pub fn run(path: &Path) -> Result<()> {
    let (queue, _) = Queue::open(path)?;
    let ids =
        (0..100).map(|i| queue.enqueue(&format!("work {i}"), 0)).collect::<Result<Vec<_>>>()?;
    let taken = [queue.take(0)?, queue.take(0)?, queue.take(0)?];
    assert!(taken.iter().flatten().map(|job| job.id).eq(ids[..3].iter().copied()));
    queue.db.sync()?; // Without it, a crash might forget that they were taken.
    drop(queue); // The process ends here, with three jobs taken and not finished.

    let (queue, unfinished) = Queue::open(path)?;
    assert_eq!(unfinished, 3);
    let clock = AtomicU64::new(1); // This program's time: it goes on whenever a worker has nothing to do.
    thread::scope(|scope| {
        let worker = || -> Result<()> {
            while queue.jobs.range([0]..).next().is_some() {
                let now = clock.load(Ordering::Relaxed);
                match queue.take(now)? {
                    Some(job) if job.id % 10 == 0 && job.attempts == 1 => queue.retry(&job, now)?,
                    Some(job) => queue.finish(&job, &job.work.to_uppercase())?,
                    None => drop(clock.fetch_add(1, Ordering::Relaxed)),
                }
            }
            Ok(())
        };
        let workers = [(); 4].map(|()| scope.spawn(worker));
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panicked"))
    })?;
    for (i, id) in ids.iter().enumerate() {
        let result = queue.done.get(keys::encode(id))?;
        assert_eq!(result, Some(format!("WORK {i}").into_bytes().into()), "job {id}");
    }
    assert!(queue.due.first()?.is_none() && queue.running.first()?.is_none());
    writeln!(
        stdout(),
        "{} jobs done; {unfinished} of them were unfinished after the crash",
        ids.len()
    )?;
    Ok(queue.db.close()?)
}

/// Runs in the pool that is named, or in one that is removed at the end.
fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(path) => run(path.as_ref()),
        None => run(&tempfile::tempdir()?.path().join("jobs.ever")),
    }
}
