//! Measurements of several sensors, with range queries and retention.
//!
//! ```sh
//! cargo run --release -p everleaf --example time_series [POOL]
//! ```
//!
//! | tree     | key                      | value                                   |
//! |----------|--------------------------|-----------------------------------------|
//! | `points` | the pair (sensor, time)  | the measurement, 8 bytes                |
//! | `latest` | sensor                   | time and measurement of the last point  |
//!
//! `everleaf::keys` encodes the pairs, so their order is that of the sensors, and then that of the times. The sensor comes
//! first, so that one sensor's points lie side by side. Times are signed milliseconds since 1970.
//!
//! `latest` is also the list of all sensors. It changes in the same batch as `points`: after a crash
//! the two agree.

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;

use everleaf::{Db, Tree, keys};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A time and what was measured.
type Point = (i64, f64);

/// How many points one step of the retention removes.
const STEP: usize = 500;

struct Series {
    db: Db,
    points: Tree,
    latest: Tree,
}

impl Series {
    fn open(path: &Path) -> Result<Series> {
        let db = Db::open(path)?;
        let (points, latest) = (db.tree("points")?, db.tree("latest")?);
        Ok(Series { db, points, latest })
    }

    /// Appends points of one sensor, in the order of their times, all or none of them. A point is on
    /// disk about 10 ms later; sensors measure again, so nobody waits for that here.
    fn append(&self, sensor: &str, points: &[Point]) -> Result<()> {
        let mut batch = self.db.batch();
        for &(time, value) in points {
            batch.put(&self.points, keys::encode((sensor, time)), value.to_le_bytes())?;
        }
        if let Some(&(time, value)) = points.last() {
            batch.put(&self.latest, sensor, [time.to_le_bytes(), value.to_le_bytes()].concat())?;
        }
        Ok(batch.commit()?)
    }

    /// The points from one time up to another one, which is not included. They are read in pieces
    /// while the caller takes them, so a long range needs no more memory than a short one.
    fn range(&self, sensor: &str, from: i64, to: i64) -> impl Iterator<Item = Result<Point>> {
        let range = keys::encode((sensor, from))..keys::encode((sensor, to));
        self.points.range(range).map(|pair| {
            let (key, value) = pair?;
            let (_, time): (String, i64) = keys::decode(key)?;
            Ok((time, f64::from_le_bytes(value.try_into()?)))
        })
    }

    /// All sensors.
    fn sensors(&self) -> Result<Vec<String>> {
        self.latest.iter().map(|pair| Ok(String::from_utf8(pair?.0.into())?)).collect()
    }

    /// Removes all points that are older than `limit`; returns how many. One batch would hold them all
    /// in memory and make other batches wait, so this goes in steps. A crash between two steps leaves
    /// some old points, which the next call removes.
    fn expire(&self, limit: i64) -> Result<usize> {
        let mut removed = 0;
        for sensor in self.sensors()? {
            loop {
                let (from, to) =
                    (keys::encode((&sensor, i64::MIN)), keys::encode((&sensor, limit)));
                let old = self.points.range(from..to);
                let mut batch = self.db.batch();
                for pair in old.take(STEP) {
                    batch.delete(&self.points, pair?.0)?;
                }
                if batch.is_empty() {
                    break;
                }
                removed += batch.len();
                batch.commit()?;
            }
        }
        self.db.sync()?; // Points that the caller now counts as gone do not come back after a crash.
        Ok(removed)
    }
}

/// The program: three sensors, a point a second each, from an hour before 1970 to an hour after.
pub fn run(path: &Path) -> Result<()> {
    const SENSORS: [&str; 3] = ["cellar", "cellar-2", "roof"];
    const HOUR: i64 = 3_600_000;
    let series = Series::open(path)?;
    let value = |sensor: usize, time: i64| sensor as f64 * 10.0 + (time as f64 / 600_000.0).sin();
    for (i, sensor) in SENSORS.iter().enumerate() {
        let points: Vec<Point> =
            (-HOUR..HOUR).step_by(1000).map(|time| (time, value(i, time))).collect();
        points.chunks(100).try_for_each(|minutes| series.append(sensor, minutes))?;
    }

    // One minute around 1970, of one sensor: in order, and nothing of its neighbours.
    let minute = series.range("cellar", -30_000, 30_000).collect::<Result<Vec<_>>>()?;
    let expected = (-30_000..30_000).step_by(1000).map(|time| (time, value(0, time)));
    assert!(minute.iter().copied().eq(expected));
    let mean = minute.iter().map(|&(_, value)| value).sum::<f64>() / minute.len() as f64;

    // The last point is the first one from the back, and the one that `latest` has.
    let last = series.points.range(keys::starting_with("roof")).keys().next_back();
    let (_, last): (String, i64) = keys::decode(last.ok_or("the roof has points")??)?;
    let latest = series.latest.get("roof")?.ok_or("the roof has a latest point")?;
    assert_eq!(latest[..8], last.to_le_bytes());

    let removed = series.expire(0)?;
    drop(series);

    let series = Series::open(path)?; // Removed points stay gone, and the rest is there.
    for sensor in series.sensors()? {
        assert_eq!(series.range(&sensor, i64::MIN, 0).count(), 0, "{sensor}");
        assert_eq!(series.range(&sensor, 0, i64::MAX).count(), 3600, "{sensor}");
    }
    assert_eq!((removed, series.sensors()?.len()), (3 * 3600, 3));
    writeln!(stdout(), "mean around 1970 in the cellar: {mean:.4}; {removed} old points removed")?;
    Ok(series.db.close()?)
}

/// Runs in the pool that is named, or in one that is removed at the end.
fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(path) => run(path.as_ref()),
        None => run(&tempfile::tempdir()?.path().join("series.ever")),
    }
}
