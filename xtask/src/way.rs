//! `way [--renew | --route OPERATION]`: which source files one warm operation goes through, in order.
//!
//! A put that crosses many files is slow to read, whatever it costs the machine. `crates/everleaf/examples/way.rs` runs an
//! operation between two marks under valgrind's lackey, which prints the address of each instruction. Debug lines say of
//! each which file it is from: the innermost inlined function of this repository. Counted are the files, how often the way
//! goes from one file to another (*hand-overs*), and instructions. `ci/way.txt` has what they may be at most; 2 % more hand-overs
//! pass.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

type Failure = Box<dyn std::error::Error>;

/// The operations, in the order in which they are printed.
const OPERATIONS: [&str; 8] =
    ["put", "update", "get", "delete", "seek", "next", "commit", "commit2"];

const GOLDEN: &str = "ci/way.txt";

/// The way of one operation: a file for each time that another one takes over, and how many instructions ran.
struct Way {
    route: Vec<String>,
    instructions: usize,
}

impl Way {
    fn files(&self) -> usize {
        self.route.iter().collect::<BTreeSet<_>>().len()
    }

    fn hand_overs(&self) -> usize {
        self.route.len().saturating_sub(1)
    }

    fn row(&self, operation: &str) -> String {
        format!("{operation} {} {} {}", self.files(), self.hand_overs(), self.instructions)
    }
}

/// Ends with 77 ("skipped") without valgrind.
pub fn run(root: &Path, is_renewed: bool, route_of: Option<&str>) -> ExitCode {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: no valgrind");
        return ExitCode::from(77);
    }
    let done = match route_of {
        Some(operation) => route(root, operation),
        None if is_renewed => renew(root),
        None => compare(root),
    };
    done.unwrap_or_else(|error| {
        eprintln!("way: {error}");
        ExitCode::from(4)
    })
}

fn compare(root: &Path) -> Result<ExitCode, Failure> {
    let golden = std::fs::read_to_string(root.join(GOLDEN))?;
    let program = build(root)?;
    let mut failed = 0;
    for operation in OPERATIONS {
        let way = trace(&program, operation)?;
        let most = most(&golden, operation).ok_or_else(|| format!("{GOLDEN}: no {operation}"))?;
        // Another processor has other vectors.
        let far = way.files() > most[0] || 100 * way.hand_overs() > 102 * most[1];
        failed += usize::from(far);
        println!(
            "{operation:8} {:3} files (at most {}), {:5} hand-overs (at most {}), {:6} instructions{}",
            way.files(),
            most[0],
            way.hand_overs(),
            most[1],
            way.instructions,
            if far { "  <--" } else { "" }
        );
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The most files and hand-overs that the golden file allows an operation.
fn most(golden: &str, operation: &str) -> Option<[usize; 2]> {
    let row = golden.lines().find(|line| line.split(' ').next() == Some(operation))?;
    let mut numbers = row.split(' ').skip(1).map(str::parse);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

fn renew(root: &Path) -> Result<ExitCode, Failure> {
    let program = build(root)?;
    let mut text = String::from(
        "# Files, hand-overs between files and instructions of one warm operation. By cargo xtask way --renew\n",
    );
    for operation in OPERATIONS {
        writeln!(text, "{}", trace(&program, operation)?.row(operation))?;
    }
    print!("{text}");
    std::fs::write(root.join(GOLDEN), text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints each station of an operation, and how often each file is entered.
fn route(root: &Path, operation: &str) -> Result<ExitCode, Failure> {
    let way = trace(&build(root)?, operation)?;
    println!("{}", way.route.join(" > "));
    let mut entered: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &way.route {
        *entered.entry(file).or_default() += 1;
    }
    let mut entered: Vec<_> = entered.into_iter().collect();
    entered.sort_by_key(|&(file, times)| (std::cmp::Reverse(times), file));
    for (file, times) in entered {
        println!("{times:5} {file}");
    }
    println!("{}", way.row(operation));
    Ok(ExitCode::SUCCESS)
}

fn build(root: &Path) -> Result<PathBuf, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo)
        .args(["build", "--quiet", "--release", "-p", "everleaf", "--features", "heavy"])
        .args(["--example", "way"])
        .current_dir(root)
        .status()?;
    if !done.success() {
        return Err("the example cannot be built".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root.join(target).join("release/examples/way"))
}

/// The addresses that run between the marks, and the marks' own.
fn addresses(program: &Path, operation: &str) -> Result<(Vec<u64>, u64), Failure> {
    // Valgrind puts a program at the same place each time: a first run says where the marks are.
    let mut lackey = Command::new("valgrind");
    lackey.args(["--tool=lackey", "--log-file=/dev/null"]).arg(program).arg(operation);
    let said = String::from_utf8(lackey.output()?.stdout)?;
    let marks: Vec<_> = said.split_whitespace().skip(1).collect();
    let [begin, end] = marks[..] else { return Err(format!("{operation}: no marks").into()) };
    let (begin, end) = (u64::from_str_radix(begin, 16)?, u64::from_str_radix(end, 16)?);
    let mut run = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", "--log-fd=2"])
        .arg(program)
        .arg(operation)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(run.stderr.take().expect("it is piped"));
    let (mut line, mut between) = (String::new(), None::<Vec<u64>>);
    while lines.read_line(&mut line)? > 0 {
        let place = line.strip_prefix("I ").and_then(|rest| rest.split(',').next());
        match place.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()) {
            Some(place) if place == begin => between = Some(Vec::new()),
            Some(place) if place == end => break,
            Some(place) => between.iter_mut().for_each(|addresses| addresses.push(place)),
            None => {}
        }
        line.clear();
    }
    run.kill()?;
    run.wait()?;
    let addresses = between.ok_or_else(|| format!("{operation}: the mark was not met"))?;
    Ok((addresses, begin))
}

fn trace(program: &Path, operation: &str) -> Result<Way, Failure> {
    let (addresses, begin) = addresses(program, operation)?;
    let lines = addr2line::Loader::new(program).map_err(|error| error.to_string())?;
    let base = begin - mark(program)?;
    let (mut route, mut known) = (Vec::<String>::new(), HashMap::new());
    for address in &addresses {
        let at = address.wrapping_sub(base);
        let file = known.entry(at).or_insert_with(|| file(&lines, at));
        if let Some(file) = file
            && route.last() != Some(file)
        {
            route.push(file.clone());
        }
    }
    Ok(Way { route, instructions: addresses.len() })
}

/// Where the first mark is in the program's file.
fn mark(program: &Path) -> Result<u64, Failure> {
    let symbols = Command::new("nm").arg("--demangle").arg(program).output()?;
    let symbols = String::from_utf8(symbols.stdout)?;
    let line = symbols.lines().find(|line| line.contains("way::mark_begin"));
    let place = line.and_then(|line| line.split(' ').next()).ok_or("no symbol of a mark")?;
    Ok(u64::from_str_radix(place, 16)?)
}

/// The file of the repository that an instruction comes from: its innermost inlined function that is ours. Code that the
/// compiler makes to drop a type is in no file that anybody reads.
fn file(lines: &addr2line::Loader, at: u64) -> Option<String> {
    let mut frames = lines.find_frames(at).ok()?;
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|function| function.demangle().ok());
        if name.is_some_and(|name| name.contains("drop_in_place<")) {
            continue;
        }
        // Code that the compiler adds by itself has no line.
        let place = frame.location.filter(|place| place.line.is_some_and(|line| line > 0));
        let ours = place.and_then(|place| place.file).and_then(ours);
        if ours.is_some() {
            return ours;
        }
    }
    None
}

/// `tree/blink/write.rs` of `…/crates/tree/src/blink/write.rs`; none of the standard library and of other packages.
fn ours(path: &str) -> Option<String> {
    if path.contains("/registry/") || path.contains("/rustc/") || path.contains("/rustlib/") {
        return None;
    }
    let (krate, file) = path.rsplit_once("crates/")?.1.split_once("/src/")?;
    Some(format!("{krate}/{file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_are_not_on_the_way() {
        assert_eq!(
            ours("/a/crates/tree/src/blink/write.rs").as_deref(),
            Some("tree/blink/write.rs")
        );
        assert_eq!(ours("crates/pmem/src/page.rs").as_deref(), Some("pmem/page.rs"));
        assert_eq!(ours("/a/registry/src/i/crc32c-0.6.8/src/lib.rs"), None);
        assert_eq!(ours("/rustc/59807616e1/library/core/src/slice/mod.rs"), None);
        assert_eq!(ours("/a/crates/everleaf/examples/way.rs"), None);
    }

    #[test]
    fn a_way_counts_its_files_and_hand_overs() {
        let route = ["a", "b", "a", "c"].map(str::to_owned).to_vec();
        let way = Way { route, instructions: 9 };
        assert_eq!(way.row("put"), "put 3 3 9");
        assert_eq!(most("# about\nput 3 4 9\nput2 1 1 1\n", "put"), Some([3, 4]));
        assert_eq!(most("# about\n", "put"), None);
    }
}
