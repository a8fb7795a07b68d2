//! A load that is killed in the middle, and what is left of it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use everleaf::Db;

use super::cities::City;
use crate::escape::escape;
use crate::failure::{CommandError, Result, expect_no_signal};
use crate::numbers::grouped;
use crate::output::say;

const TREE: &str = "by-number";

/// Starts `everleaf load --ack`, kills it after half of its lines, reopens and compares.
pub fn run(path: &Path, cities: &[City]) -> Result<()> {
    say("\n4. Another process loads the cities into a third tree, and is killed")?;
    say(format_args!("   everleaf load {} {TREE} - --ack", path.display()))?;
    let pairs: Vec<_> =
        cities.iter().map(|city| (format!("{:08}", city.id), city.place_key())).collect();
    let acked = load_and_kill(path, &pairs)?;
    say(format_args!("   its last word was `durable {acked}`; then SIGKILL"))?;

    let start = Instant::now();
    let db = Db::open(path)?;
    say(format_args!(
        "   reopened in {:.1} ms, recovery included",
        start.elapsed().as_secs_f64() * 1e3
    ))?;
    let found = recovered(&db, &pairs)?;
    if found < acked {
        let what = format!("of {acked} acknowledged lines only {found} are there");
        return Err(CommandError::Damaged(what));
    }
    say(format_args!(
        "   {} lines were acknowledged, the first {} of {} are there: none lost, none half",
        grouped(acked),
        grouped(found),
        grouped(pairs.len() as u64),
    ))?;
    let damages = db.check()?;
    if let Some(damage) = damages.first() {
        return Err(CommandError::Damaged(damage.to_string()));
    }
    say("   check: no damage")?;
    Ok(db.close()?)
}

/// Returns how many lines the killed process had acknowledged.
fn load_and_kill(path: &Path, pairs: &[(String, String)]) -> Result<u64> {
    let blocked = |error| CommandError::Blocked(format!("cannot start the load: {error}"));
    let mut child = Command::new(std::env::current_exe().map_err(blocked)?)
        .arg("load")
        .arg(path)
        .args([TREE, "-", "--ack"])
        // A signal to the group of the terminal is ours to pass on.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(blocked)?;
    let stdin = child.stdin.take().expect("it was asked for");
    std::thread::scope(|scope| {
        scope.spawn(|| feed(stdin, pairs));
        let acked = kill_when_acked(&mut child, pairs.len() as u64 / 2);
        let killed = child.kill().and_then(|()| child.wait());
        killed.map_err(|error| CommandError::Blocked(format!("cannot end the load: {error}")))?;
        acked
    })
}

/// Writes the lines, somewhat slower than they can be loaded, until the reader is gone.
fn feed(stdin: ChildStdin, pairs: &[(String, String)]) {
    let mut out = BufWriter::new(stdin);
    for chunk in pairs.chunks(1000) {
        let mut lines = Vec::new();
        for (key, value) in chunk {
            escape(key.as_bytes(), &mut lines);
            lines.push(b'\t');
            escape(value.as_bytes(), &mut lines);
            lines.push(b'\n');
        }
        if out.write_all(&lines).and_then(|()| out.flush()).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

fn kill_when_acked(child: &mut Child, wanted: u64) -> Result<u64> {
    let mut acked = 0;
    let stdout = child.stdout.take().expect("it was asked for");
    for line in BufReader::new(stdout).lines() {
        expect_no_signal()?;
        let line =
            line.map_err(|error| CommandError::Blocked(format!("lost the load: {error}")))?;
        acked = line.strip_prefix("durable ").and_then(|lines| lines.parse().ok()).unwrap_or(acked);
        if acked >= wanted && child.try_wait().is_ok_and(|status| status.is_none()) {
            // Lines that it prints between here and its end count, too.
            let _ = child.kill();
        }
    }
    expect_no_signal()?;
    if acked < wanted {
        return Err(CommandError::Blocked("the load ended before it was killed".into()));
    }
    Ok(acked)
}

/// Compares the tree with the lines; returns how many of the first lines are there, if no others
/// are.
fn recovered(db: &Db, pairs: &[(String, String)]) -> Result<u64> {
    let lines: HashMap<_, _> = pairs
        .iter()
        .enumerate()
        .map(|(line, (key, value))| (key.as_bytes(), (line, value)))
        .collect();
    let Some(tree) = db.open_tree(TREE)? else { return Ok(0) };
    let (mut count, mut end) = (0, 0);
    for pair in &tree {
        let (key, value) = pair?;
        match lines.get(&key[..]) {
            Some((line, known)) if known.as_bytes() == value => end = end.max(line + 1),
            _ => {
                let key = String::from_utf8_lossy(&key);
                return Err(CommandError::Damaged(format!("{key} was never loaded so")));
            }
        }
        count += 1;
    }
    if count < end {
        return Err(CommandError::Damaged(format!("line {end} is there, but not all before it")));
    }
    Ok(count as u64)
}
