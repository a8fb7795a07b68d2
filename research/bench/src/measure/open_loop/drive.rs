//! Threads that do operations: one after the other, or when they arrive.

use std::hint::spin_loop;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::client::Client;
use crate::clock::Times;
use crate::measure::kind::Figures;

/// A thread that waits longer than twice this sleeps, and spins for this long at the end: sleeps end late by up
/// to about as much.
const SPIN: Duration = Duration::from_micros(100);

/// Percentiles that are quoted.
const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999)];

/// Runs a function for each client, each in a thread of its own, from the moment when all are there.
fn spread<C: Client, T: Send>(
    clients: &mut [C],
    of_thread: impl Fn(usize, &mut C) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (barrier, of_thread) = (&Barrier::new(clients.len()), &of_thread);
    thread::scope(|scope| {
        let run = |(t, client)| {
            scope.spawn(move || {
                barrier.wait();
                of_thread(t, client)
            })
        };
        let threads: Vec<_> = clients.iter_mut().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Operations a second of all clients, each of which does one operation after the other for so long, or `most`
/// of them. The clock is read and a time is noted as often as with arrivals.
///
/// # Errors
/// The first one of an operation.
pub fn closed<C: Client>(clients: &mut [C], lasts: Duration, most: u64) -> Result<f64> {
    let rates = spread(clients, |_, client| {
        let (start, mut times) = (Instant::now(), Times::default());
        let items = (0..most).take_while(|op| *op == 0 || start.elapsed() < lasts);
        times.of(items, |_| client.serve())?;
        Ok(times.count() as f64 / start.elapsed().as_secs_f64())
    })?;
    Ok(rates.iter().sum())
}

/// The outcome of arrivals.
#[derive(Default)]
pub struct Answers {
    /// From the moment of an arrival to the end of its operation.
    pub times: Times,
    /// Arrivals that found their thread busy.
    pub late: u64,
    /// Operations a second, from the start to the last end; of all threads, summed.
    pub rate: f64,
}

impl Answers {
    fn merge(mut self, other: &Self) -> Self {
        self.times.merge(&other.times);
        self.late += other.late;
        self.rate += other.rate;
        self
    }

    /// Percentiles of the latency, the rate that was reached, and the share of arrivals that began late.
    ///
    /// # Errors
    /// Nothing arrived.
    pub fn figures(&self) -> Result<Figures> {
        let count = self.times.count();
        ensure!(count > 0, "nothing arrived: more seconds, or more ops");
        let us = |name: &str, ns: u64| (format!("latency_{name}_us"), ns as f64 / 1e3);
        let mut figures: Figures = QUANTILES
            .iter()
            .map(|(name, quantile)| us(name, self.times.quantile_ns(*quantile)))
            .collect();
        figures.push(us("max", self.times.quantile_ns(1.0)));
        figures.push(("achieved_kops".into(), self.rate / 1e3));
        figures.push(("late_share".into(), self.late as f64 / count as f64));
        Ok(figures)
    }
}

/// Waits for a moment; returns whether it had passed already.
fn has_passed(due: Instant) -> bool {
    let mut now = Instant::now();
    if now > due {
        return true;
    }
    if due - now > 2 * SPIN {
        thread::sleep(due - now - SPIN);
        now = Instant::now();
    }
    while now < due {
        spin_loop();
        now = Instant::now();
    }
    false
}

/// Does the operations of one client as they arrive, so many nanoseconds after the start.
fn arrive<C: Client>(client: &mut C, arrivals: &[u64]) -> Result<Answers> {
    let (start, mut answers) = (Instant::now(), Answers::default());
    let mut end = start;
    for ns in arrivals {
        let due = start + Duration::from_nanos(*ns);
        answers.late += u64::from(has_passed(due));
        client.serve()?;
        end = Instant::now();
        answers.times.add((end - due).as_nanos() as u64);
    }
    let took = (end - start).as_secs_f64();
    answers.rate = if took > 0.0 { arrivals.len() as f64 / took } else { 0.0 };
    Ok(answers)
}

/// Does the operations of all clients as they arrive: to each its own.
///
/// # Errors
/// The first one of an operation.
pub fn open<C: Client>(clients: &mut [C], arrivals: &[Vec<u64>]) -> Result<Answers> {
    let all = spread(clients, |t, client| arrive(client, &arrivals[t]))?;
    Ok(all.iter().fold(Answers::default(), Answers::merge))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does nothing, but for one operation, which takes 5 ms.
    struct Sleeper {
        until_sleep: u64,
    }

    impl Client for Sleeper {
        fn serve(&mut self) -> Result<()> {
            if self.until_sleep == 0 {
                thread::sleep(Duration::from_millis(5));
            }
            self.until_sleep = self.until_sleep.wrapping_sub(1);
            Ok(())
        }
    }

    #[test]
    fn a_pause_is_in_the_latency_of_all_that_arrive_during_it() {
        // One each 100 µs: 50 arrive during the pause, and the i-th of them waits for 5 ms less i times 100 µs.
        let arrivals = (0..100).map(|i| i * 100_000).collect();
        let mut clients = [Sleeper { until_sleep: 20 }];
        let answers = open(&mut clients, &[arrivals]).expect("no fault");
        assert_eq!(answers.times.count(), 100);
        assert!(answers.late >= 49, "{} began late", answers.late);
        let least: u64 = (0..50).map(|i| 5_000_000 - i * 100_000).sum();
        assert!(answers.times.sum_ns() >= least, "{} ns", answers.times.sum_ns());
        // 40 of 100 waited for a millisecond or longer.
        assert!(answers.times.quantile_ns(0.61) >= 1_000_000);
        let figures = answers.figures().expect("there were arrivals");
        let max = figures.iter().find(|(name, _)| name == "latency_max_us").expect("a maximum");
        assert!(max.1 >= 5000.0);
        // 100 operations whose last one arrives 9.9 ms after the start.
        assert!(answers.rate <= 100.0 / 9.9e-3, "{}", answers.rate);
    }

    #[test]
    fn each_client_has_its_own_queue() {
        // The one that sleeps keeps nothing waiting that arrives at the other one.
        let arrivals: Vec<u64> = (0..100).map(|i| i * 100_000).collect();
        let mut clients = [Sleeper { until_sleep: 20 }, Sleeper { until_sleep: u64::MAX }];
        let both = [arrivals, vec![0]];
        let answers = open(&mut clients, &both).expect("no fault");
        assert_eq!(answers.times.count(), 101);
        assert!(answers.late >= 49);
    }

    #[test]
    fn a_closed_loop_sees_the_pause_once_and_ends_by_count_or_by_time() {
        let mut clients = [Sleeper { until_sleep: 20 }];
        let rate = closed(&mut clients, Duration::from_secs(60), 100).expect("no fault");
        // 100 operations in 5 ms or longer.
        assert!(rate > 0.0 && rate <= 100.0 / 5e-3, "{rate}");
        let start = Instant::now();
        closed(&mut clients, Duration::from_millis(10), u64::MAX).expect("no fault");
        assert!(start.elapsed() >= Duration::from_millis(10));
    }

    #[test]
    fn nothing_that_arrives_has_no_figures_and_an_error_ends_it() {
        struct Full;
        impl Client for Full {
            fn serve(&mut self) -> Result<()> {
                anyhow::bail!("full")
            }
        }
        let mut clients = [Full];
        assert!(open(&mut clients, &[Vec::new()]).expect("nothing is done").figures().is_err());
        assert!(open(&mut clients, &[vec![0]]).is_err());
        assert!(closed(&mut clients, Duration::from_millis(1), 1).is_err());
    }
}
