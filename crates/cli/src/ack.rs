//! `durable N` lines: how many input lines are known to be on disk.
//!
//! A ticker thread reads how many lines have returned, *then* asks for the epoch. All those lines
//! are in that epoch or an earlier one; so, when the epoch is durable, they are. Because the
//! ticker, not the reader of the input, says so, lines are acknowledged while the input is silent.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use everleaf::Db;

use crate::output::stdout;

const TICK: Duration = Duration::from_millis(5);

/// Prints the acknowledgements of one load. The numbers increase strictly.
pub struct Acks {
    shared: Arc<AckState>,
    ticker: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct AckState {
    /// Lines whose operation has returned.
    returned: AtomicU64,
    stop: AtomicBool,
    printer: Mutex<Printer>,
}

#[derive(Default)]
struct Printer {
    printed: Option<u64>,
    error: Option<io::Error>,
}

impl Acks {
    /// Starts to acknowledge lines that are written to `db` with buffered durability.
    ///
    /// # Errors
    ///
    /// The system's refusal of a thread.
    pub fn start(db: &Db) -> io::Result<Self> {
        let shared = Arc::new(AckState::default());
        let (ticking, db) = (Arc::clone(&shared), db.clone());
        let thread = std::thread::Builder::new().name("everleaf-ack".into());
        let ticker = Some(thread.spawn(move || ticking.tick(&db))?);
        Ok(Acks { shared, ticker })
    }

    /// Acknowledges only what [`durable`](Acks::durable) is told.
    pub fn told() -> Self {
        Acks { shared: Arc::default(), ticker: None }
    }

    /// The operations of the first `lines` lines have returned.
    pub fn returned(&self, lines: u64) {
        debug_assert!(
            self.shared.returned.load(Ordering::Relaxed) < lines,
            "lines return in order"
        );
        self.shared.returned.store(lines, Ordering::Release);
    }

    /// The first `lines` lines are on disk.
    pub fn durable(&self, lines: u64) {
        self.shared.print(lines);
    }

    /// Stops; prints the last acknowledgement if it is known that the first `durable` lines are on
    /// disk.
    ///
    /// # Errors
    ///
    /// The first failure to write an acknowledgement, if there was one.
    pub fn finish(mut self, durable: Option<u64>) -> io::Result<()> {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(ticker) = self.ticker.take() {
            ticker.thread().unpark();
            ticker.join().expect("the ticker does not panic");
        }
        if let Some(lines) = durable {
            self.shared.print(lines);
        }
        let mut printer = self.shared.printer.lock().unwrap_or_else(PoisonError::into_inner);
        printer.error.take().map_or(Ok(()), Err)
    }
}

impl AckState {
    fn tick(&self, db: &Db) {
        let (mut marks, mut marked) = (VecDeque::<(u64, u64)>::new(), 0);
        loop {
            let stop = self.stop.load(Ordering::Acquire);
            let lines = self.returned.load(Ordering::Acquire);
            let epoch = db.epoch(); // after `returned`: see above
            if lines > marked {
                marks.push_back((lines, epoch));
                marked = lines;
            }
            let durable_epoch = db.durable_epoch();
            let known = marks.partition_point(|mark| mark.1 <= durable_epoch);
            if let Some((lines, _)) = marks.drain(..known).next_back() {
                self.print(lines);
            }
            if stop {
                return;
            }
            std::thread::park_timeout(TICK);
        }
    }

    fn print(&self, lines: u64) {
        let mut printer = self.printer.lock().unwrap_or_else(PoisonError::into_inner);
        if printer.error.is_some() || printer.printed.is_some_and(|printed| printed >= lines) {
            return;
        }
        let mut out = stdout();
        match writeln!(out, "durable {lines}").and_then(|()| out.flush()) {
            Ok(()) => printer.printed = Some(lines),
            Err(error) => printer.error = Some(error),
        }
    }
}
