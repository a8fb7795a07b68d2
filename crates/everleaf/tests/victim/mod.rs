//! A test that starts itself as a process, hears what that says, and kills it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::str::Split;
use std::time::Duration;

/// Numbers and a path, as a victim is told them.
pub fn tell(numbers: &[u64], path: &std::path::Path) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("{} {}", numbers.join(","), path.display())
}

/// The numbers and the path that a victim was told in the variable; none if it was not started as one.
pub fn told(variable: &str) -> Option<(Vec<u64>, String)> {
    let what = std::env::var(variable).ok()?;
    let (numbers, path) = what.split_once(' ').expect("numbers and a path");
    let numbers = numbers.split(',').map(|n| n.parse().expect("a number")).collect();
    Some((numbers, path.into()))
}

/// Starts the ignored test `victim` of this program, and kills it after `life`. `hear` gets the words of each
/// line that it says, and `said`, which is what it has said in the end.
pub fn run_and_kill<S: Send + 'static>(
    (variable, told): (&str, String),
    life: Duration,
    spawn: impl FnOnce(&mut Command) -> std::io::Result<Child>,
    mut said: S,
    hear: impl Fn(&mut S, Split<'_, char>) + Send + 'static,
) -> S {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "victim", "--ignored", "--nocapture"]);
    command.env(variable, told);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = spawn(command).expect("this test again");
    let out = child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            hear(&mut said, line.split(' '));
        }
        said
    });
    std::thread::sleep(life);
    child.kill().expect("killed");
    let status = child.wait().expect("waited");
    assert_eq!(status.signal(), Some(9), "the victim ended by itself: {status}");
    reader.join().expect("no panic")
}
