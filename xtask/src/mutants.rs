//! Mutants of source lines: `cargo xtask mutants [WORD ...]` plants one defect after the other and runs
//! the tests that must notice. A word is of a defect's name, of its file, or of its list. `tidy` checks
//! that each defect still has its place.
//!
//! The lists are `ci/mutants/*.txt`:
//!
//! ```text
//! group NAME: [VARIABLE=VALUE ...] ARGUMENTS OF CARGO
//!
//! ## what is wrong then
//! in crates/file/src/epochs/commit.rs
//! by NAME
//! - the lines, in a row,
//! - as they are
//! + what takes their place, if anything
//! survives: why no test can notice, for the few where that is so
//! ```
//!
//! Lines match whatever their indentation, and must occur once. The mutants are planted in a copy of
//! the tree, so that the tree itself never changes.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::tree::{Files, finding, with_suffix};

/// A run of the tests that takes longer hangs, which is a way to notice.
const RUN_MAX: Duration = Duration::from_secs(300);
/// So does one that takes so many times as long as without a mutant, but for short ones: tests take longer beside
/// others, and while they write what a panic says.
const RUN_TIMES_MAX: u32 = 20;
const SHORT_RUN: Duration = Duration::from_secs(2);

/// One defect.
#[derive(Debug, Default)]
struct Mutant {
    name: String,
    /// Where the list says it, and from which line on.
    list: (String, usize),
    file: String,
    group: String,
    old: Vec<String>,
    new: Vec<String>,
    survives: Option<String>,
}

/// The mutants of all lists, and the groups of tests.
#[derive(Debug, Default)]
struct Lists {
    groups: BTreeMap<String, Vec<String>>,
    mutants: Vec<Mutant>,
}

impl Lists {
    fn read(files: &Files, findings: &mut Vec<String>) -> Self {
        let mut lists = Lists::default();
        for (path, text) in with_suffix(files, ".txt") {
            if path.starts_with("ci/mutants/") {
                lists.read_one(path, text, findings);
            }
        }
        lists
    }

    fn read_one(&mut self, path: &str, text: &str, findings: &mut Vec<String>) {
        for (at, line) in (1..).zip(text.lines()) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let rest = rest.to_owned();
            let last = self.mutants.last_mut();
            match (word, last) {
                ("" | "#", _) => {}
                ("group", _) if rest.contains(": ") => {
                    let (name, args) = rest.split_once(": ").unwrap_or_default();
                    let args = args.split_whitespace().map(str::to_owned).collect();
                    if self.groups.insert(name.to_owned(), args).is_some() {
                        findings.push(finding(path, at, format!("a second group `{name}`")));
                    }
                }
                ("##", _) => {
                    let list = (path.to_owned(), at);
                    self.mutants.push(Mutant { name: rest, list, ..Mutant::default() });
                }
                ("in", Some(mutant)) => mutant.file = rest,
                ("by", Some(mutant)) => mutant.group = rest,
                ("-", Some(mutant)) => mutant.old.push(rest),
                ("+", Some(mutant)) => mutant.new.push(rest),
                ("survives:", Some(mutant)) => mutant.survives = Some(rest),
                _ => findings.push(finding(path, at, format!("what is `{word}`?"))),
            }
        }
    }
}

impl Mutant {
    /// The file with the defect in it.
    ///
    /// # Errors
    /// If the lines are not there, or are there more than once.
    fn apply(&self, source: &str) -> Result<String, String> {
        let lines: Vec<&str> = source.lines().collect();
        let same =
            |window: &[&str]| window.iter().zip(&self.old).all(|(a, b)| a.trim() == b.trim());
        let n = self.old.len();
        if n == 0 {
            return Err("no lines to change".into());
        }
        let mut places = (0..lines.len().saturating_sub(n - 1)).filter(|&i| same(&lines[i..i + n]));
        let (Some(at), None) = (places.next(), places.next()) else {
            let count = lines.windows(n).filter(|window| same(window)).count();
            return Err(format!("its lines occur {count} times in {}", self.file));
        };
        let new = self.new.iter().map(String::as_str);
        let all = lines[..at].iter().copied().chain(new).chain(lines[at + n..].iter().copied());
        Ok(all.flat_map(|line| [line, "\n"]).collect())
    }
}

/// Reports mutants that have lost their place, and lists that cannot be read.
pub fn check(files: &Files, findings: &mut Vec<String>) {
    let lists = Lists::read(files, findings);
    for mutant in &lists.mutants {
        let (list, line) = &mutant.list;
        if !lists.groups.contains_key(&mutant.group) {
            findings.push(finding(list, *line, format!("no group `{}`", mutant.group)));
        }
        let wrong = match files.get(&mutant.file) {
            None => Some(format!("no file `{}`", mutant.file)),
            Some(source) => mutant.apply(source).err(),
        };
        findings.extend(wrong.map(|wrong| finding(list, *line, wrong)));
    }
}

/// How a mutant ended.
#[derive(Debug, PartialEq)]
enum End {
    Killed,
    Hung,
    Survived,
    /// It does not compile: the defect must be written in another way.
    Unfit,
}

/// Plants the mutants whose name, file or list contains one of the words, all if there is none, and says
/// how each ended.
pub fn run(root: &Path, files: &Files, words: &[String]) -> ExitCode {
    let mut findings = Vec::new();
    check(files, &mut findings);
    let lists = Lists::read(files, &mut Vec::new());
    let named = |m: &Mutant, word: &str| {
        [&m.name, &m.file, &m.list.0].into_iter().any(|text| text.contains(word))
    };
    let chosen = |m: &&Mutant| words.is_empty() || words.iter().any(|word| named(m, word));
    let mutants: Vec<_> = lists.mutants.iter().filter(chosen).collect();
    if !findings.is_empty() || mutants.is_empty() {
        findings.iter().for_each(|finding| println!("{finding}"));
        println!("{} mutants to plant, {} findings", mutants.len(), findings.len());
        return ExitCode::from(2);
    }
    match plant(&Bed::new(root), &lists, &mutants, files) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::from(4)
        }
    }
}

/// Whether each was killed, or explained.
fn plant(bed: &Bed, lists: &Lists, mutants: &[&Mutant], files: &Files) -> std::io::Result<bool> {
    bed.clear(&bed.dir, files)?;
    for (path, text) in files {
        // Files that are no text are data of tests. A file that is as it was need not be built again.
        match std::fs::read_to_string(bed.dir.join(path)) {
            Ok(old) if old == *text && !text.is_empty() => {}
            _ if text.is_empty() => bed.copy(path)?,
            _ => bed.write(path, text)?,
        }
    }
    let wanted: Vec<_> =
        lists.groups.iter().filter(|g| mutants.iter().any(|m| m.group == *g.0)).collect();
    let mut longest = BTreeMap::new();
    for (group, args) in wanted {
        let (end, took) = bed.test(args, RUN_MAX)?;
        if end != End::Survived {
            println!("{group}: its tests fail without a mutant");
            return Ok(false);
        }
        longest.insert(group, (took.max(SHORT_RUN) * RUN_TIMES_MAX).min(RUN_MAX));
    }
    let (mut counts, mut all) = ([0; 4], true);
    for mutant in mutants {
        let start = Instant::now();
        let source = &files[&mutant.file];
        bed.write(&mutant.file, &mutant.apply(source).unwrap_or_default())?;
        let (end, _) = bed.test(&lists.groups[&mutant.group], longest[&mutant.group])?;
        bed.write(&mutant.file, source)?;
        let explained = mutant.survives.is_some();
        let (place, says) = match (&end, explained) {
            (End::Killed | End::Hung, false) => (0, ""),
            (End::Survived, true) => (1, " as explained"),
            (End::Killed | End::Hung, true) => (2, ", although explained"),
            _ => (3, "  <--"),
        };
        counts[place] += 1;
        all &= place < 2;
        let (seconds, Mutant { file, name, .. }) = (start.elapsed().as_secs(), mutant);
        println!("{end:?}{says} in {seconds} s: {file}: {name}");
        if end == End::Killed {
            println!("  by {}", bed.failed());
        }
    }
    let [killed, explained, wrong, survived] = counts;
    println!(
        "{killed} killed, {explained} explained, {wrong} wrongly explained, {survived} survived"
    );
    Ok(all)
}

/// A copy of the tree where mutants are planted.
struct Bed<'a> {
    root: &'a Path,
    dir: std::path::PathBuf,
}

impl<'a> Bed<'a> {
    fn new(root: &'a Path) -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
        Self { root, dir: target.join("mutants") }
    }

    /// Removes files that an earlier run has left and the tree does not have, but for what was built.
    fn clear(&self, dir: &Path, files: &Files) -> std::io::Result<()> {
        let Ok(entries) = std::fs::read_dir(dir) else { return Ok(()) };
        for entry in entries {
            let path = entry?.path();
            let name = path.strip_prefix(&self.dir).unwrap_or(&path).to_string_lossy();
            match path.is_dir() {
                true if name == "target" => {}
                true => self.clear(&path, files)?,
                false if files.contains_key(&*name) => {}
                false => std::fs::remove_file(path)?,
            }
        }
        Ok(())
    }

    fn write(&self, path: &str, text: &str) -> std::io::Result<()> {
        let to = self.dir.join(path);
        std::fs::create_dir_all(to.parent().expect("a file is in a directory"))?;
        std::fs::write(to, text)
    }

    fn copy(&self, path: &str) -> std::io::Result<()> {
        let to = self.dir.join(path);
        if !self.root.join(path).exists() {
            return Ok(());
        }
        std::fs::create_dir_all(to.parent().expect("a file is in a directory"))?;
        std::fs::copy(self.root.join(path), to).map(drop)
    }

    /// Where the tests of the last run say how they ended.
    fn said(&self) -> std::path::PathBuf {
        self.dir.join("said.txt")
    }

    /// The tests that failed in the last run; the one that aborted has no name.
    fn failed(&self) -> String {
        let said = std::fs::read(self.said()).unwrap_or_default();
        names_of_failed(&String::from_utf8_lossy(&said)).join(", ")
    }

    /// Builds, then runs the tests, and says how long these took.
    fn test(&self, args: &[String], longest: Duration) -> std::io::Result<(End, Duration)> {
        let (variables, args) = variables_of(args);
        let cargo = |args: &[&str]| {
            let mut command = Command::new("cargo");
            command.args(args).current_dir(&self.dir).envs(variables.clone());
            command.env("CARGO_TARGET_DIR", self.dir.join("target"));
            command.env("CARGO_INCREMENTAL", "1").env("RUST_BACKTRACE", "0");
            // A group of its own, so that a test that hangs can be ended with its parent.
            let said = std::fs::File::create(self.said())?;
            command.process_group(0).stdout(said).stderr(Stdio::null()).spawn()
        };
        if !cargo(&without_a_run(args))?.wait()?.success() {
            return Ok((End::Unfit, Duration::ZERO));
        }
        let start = Instant::now();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Ok((wait(cargo(&args)?, longest)?, start.elapsed()))
    }
}

/// The names in lines like `test NAME ... FAILED`.
fn names_of_failed(said: &str) -> Vec<&str> {
    let lines = said.lines().filter_map(|line| line.strip_suffix(" ... FAILED"));
    lines.filter_map(|line| line.strip_prefix("test ")).collect()
}

/// The variables that stand before the arguments of a group, and those.
fn variables_of(args: &[String]) -> (Vec<(&str, &str)>, &[String]) {
    let variables: Vec<_> = args.iter().map_while(|arg| arg.split_once('=')).collect();
    let rest = &args[variables.len()..];
    (variables, rest)
}

/// The arguments for a build alone: what follows `--` is for the tests, which would refuse one more.
fn without_a_run(args: &[String]) -> Vec<&str> {
    let for_cargo = args.iter().map(String::as_str).take_while(|arg| *arg != "--");
    for_cargo.chain(["--no-run"]).collect()
}

fn wait(mut child: Child, longest: Duration) -> std::io::Result<End> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { End::Survived } else { End::Killed });
        }
        if start.elapsed() > longest {
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-KILL", "--", &group]).status()?;
            child.wait()?;
            return Ok(End::Hung);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::files;

    const LIST: &str =
        "group g: A=1 B=2 test -p x -- y::\n\n## no sync\nin a.rs\nby g\n- sync();\n+ skip();\n";

    #[test]
    fn a_mutant_takes_the_place_of_its_lines() {
        let source = "fn f() {\n    write();\n    sync();\n}\n";
        let files = files([("ci/mutants/m.txt", LIST), ("a.rs", source)]);
        let mut findings = Vec::new();
        check(&files, &mut findings);
        assert!(findings.is_empty(), "{findings:?}");
        let lists = Lists::read(&files, &mut findings);
        let (variables, args) = variables_of(&lists.groups["g"]);
        assert_eq!(variables, [("A", "1"), ("B", "2")]);
        assert_eq!(args, ["test", "-p", "x", "--", "y::"]);
        assert_eq!(without_a_run(args), ["test", "-p", "x", "--no-run"]);
        let mutated = lists.mutants[0].apply(source);
        assert_eq!(mutated.as_deref(), Ok("fn f() {\n    write();\nskip();\n}\n"));
    }

    #[test]
    fn a_mutant_without_its_place_is_a_finding() {
        for (source, count) in [("fn f() {}\n", 0), ("sync();\n  sync();\n", 2)] {
            let mut findings = Vec::new();
            check(&files([("ci/mutants/m.txt", LIST), ("a.rs", source)]), &mut findings);
            let what = format!("ci/mutants/m.txt:3: its lines occur {count} times in a.rs");
            assert_eq!(findings, [what]);
        }
        let mut findings = Vec::new();
        check(&files([("ci/mutants/m.txt", "## x\nin b.rs\nby h\nfoo bar\n")]), &mut findings);
        assert_eq!(findings.len(), 3, "{findings:?}");
    }

    #[test]
    fn a_test_that_failed_is_named() {
        let said = "test a::b ... ok\ntest a::c ... FAILED\n\nfailures:\n    a::c\n";
        assert_eq!(names_of_failed(said), ["a::c"]);
    }

    #[test]
    fn two_groups_of_one_name_are_a_finding() {
        let lists = [("ci/mutants/a.txt", "group g: x\n"), ("ci/mutants/b.txt", "group g: y\n")];
        let mut findings = Vec::new();
        check(&files(lists), &mut findings);
        assert_eq!(findings, ["ci/mutants/b.txt:1: a second group `g`"]);
    }
}
