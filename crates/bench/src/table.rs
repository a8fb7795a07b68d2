//! Medians over rounds, as a small table.

use std::time::{Duration, Instant};

/// One system's figures: a name and one figure a round.
pub struct Row {
    name: String,
    figures: Vec<f64>,
}

/// Figures of several systems; the first row is what the others are compared with.
pub struct Table {
    unit: &'static str,
    rows: Vec<Row>,
}

/// The median; the lower one of two.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

impl Table {
    /// An empty table of figures in `unit`.
    pub fn new(unit: &'static str) -> Self {
        Self { unit, rows: Vec::new() }
    }

    /// Adds this round's figure of a system.
    pub fn add(&mut self, name: &str, figure: f64) {
        match self.rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.figures.push(figure),
            None => self.rows.push(Row { name: name.into(), figures: vec![figure] }),
        }
    }

    /// Prints medians and, beside them, the median of the ratios to the first row.
    pub fn print(&self, title: &str) {
        println!(
            "\n{title} (medians of {} rounds)",
            self.rows.first().map_or(0, |r| r.figures.len())
        );
        let Some(base) = self.rows.first() else { return };
        for row in &self.rows {
            let ratios: Vec<f64> =
                row.figures.iter().zip(&base.figures).map(|(f, b)| f / b).collect();
            println!(
                "  {:<28} {:>12.1} {:<8} {:>6.2} × {}",
                row.name,
                median(&row.figures),
                self.unit,
                median(&ratios),
                base.name
            );
        }
    }
}

/// Figures of several systems (the columns) in several settings (the rows), one figure a round. The
/// first column is what is compared with each of the others.
pub struct Grid {
    columns: Vec<String>,
    rows: Vec<(String, Vec<Vec<f64>>)>,
}

impl Grid {
    /// A grid without rows.
    pub fn new(columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { columns: columns.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds this round's figure of a system in a setting.
    pub fn add(&mut self, row: &str, column: usize, figure: f64) {
        let at = self.rows.iter().position(|(name, _)| name == row).unwrap_or_else(|| {
            self.rows.push((row.into(), vec![Vec::new(); self.columns.len()]));
            self.rows.len() - 1
        });
        self.rows[at].1[column].push(figure);
    }

    /// Prints medians and, for each column but the first, the median over rounds of the first
    /// column's figure divided by its own.
    pub fn print(&self, title: &str) {
        println!("\n{title}");
        print!("  {:<28}", "");
        self.columns.iter().for_each(|name| print!(" {name:>14}"));
        self.columns.iter().skip(1).for_each(|name| print!(" {:>16}", format!("/ {name}")));
        println!();
        for (name, figures) in &self.rows {
            print!("  {name:<28}");
            figures.iter().for_each(|own| print!(" {:>14.3}", median(own)));
            for other in figures.iter().skip(1) {
                let ratios: Vec<f64> = figures[0].iter().zip(other).map(|(a, b)| a / b).collect();
                print!(" {:>15.2}×", median(&ratios));
            }
            println!();
        }
    }
}

/// Runs `work` and returns its duration.
pub fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Runs `work(thread)` on so many threads at once and returns how long all of them took.
pub fn spread(threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    time(|| {
        std::thread::scope(|scope| {
            for t in 0..threads {
                let work = &work;
                scope.spawn(move || work(t));
            }
        });
    })
}

/// Millions of operations a second.
pub fn mops(operations: u64, took: Duration) -> f64 {
    operations as f64 / took.as_secs_f64() / 1e6
}
