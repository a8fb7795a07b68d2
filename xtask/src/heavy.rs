//! `heavy [LIST]`: builds the tests of the list for release, and runs them three at a time, each with its time.
//! `EVERLEAF_SCALE` says how much they do. If the machine is so slow that somebody would wait too long for all that
//! `cargo xtask ci` does, they do less, which is said.
//!
//! A line of the list is `PACKAGE TEST`, or `PACKAGE *` for all tests of a package; `PACKAGE TEST/FILE` for those in one
//! file of a program of tests, as a process of its own; `#` starts a comment. The slowest tests stand first, so that the
//! lanes end together. A test that takes times has `alone` behind it: it runs when all others have ended. One that takes
//! longer to be optimized than to run without that has `light` behind it: it is built as `cargo test` builds. One with
//! `spare` is left out on a slow machine.
//!
//! Cargo itself runs one test binary after the other. Many of these wait for processes that they kill,
//! or have one thread, so that half of two processors would be idle.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::steps::{ELAPSED, HEAVY, output};

/// How many run at a time: one more than the machine of CI has processors, as a third of their time they wait, for the
/// disk, for processes that they kill, and for a time to pass.
const LANES: usize = 3;

/// With the measures of CI, a test that has not ended after so many seconds hangs: on a slow machine the longest,
/// `crash_tree`, takes 852. It is ended, so that its name and what it has printed are seen.
const LONGEST: u32 = 1500;

/// A setting for light tests beside the profile of `cargo test`: it makes the code of trees anew, which takes longer to be
/// optimized than that of any other package.
const LIGHT: &str = "profile.dev.package.everleaf-tree.opt-level=0";

/// A setting for the others: a fifth of the time of a build goes into looking at the pieces of a crate together, and
/// each of these programs runs for a few minutes only.
const APART: &str = "profile.release.lto='off'";

/// If it took so many seconds until the tests of CI are built, they do less: the same machine would take longer for the
/// rest.
const SLOW: u64 = 35 * 60;

/// The exit code of `timeout` if it has ended a command.
const TIMED_OUT: i32 = 124;

/// A test binary.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Binary {
    package: String,
    test: String,
    /// The only file of the program whose tests run.
    part: Option<String>,
    /// The first file of the program.
    main: PathBuf,
    program: PathBuf,
    /// Where its package is: tests run there.
    dir: PathBuf,
    /// Whether nothing may run beside it.
    is_alone: bool,
    /// Whether it is built with [`LIGHT`].
    is_light: bool,
    /// Whether a slow machine leaves it out.
    is_spare: bool,
}

impl Binary {
    /// As the list has it.
    fn name(&self) -> String {
        let part = self.part.iter().map(|part| format!("/{part}"));
        format!("{} {}{}", self.package, self.test, part.collect::<String>())
    }
}

/// Runs the tests that the list names.
pub fn run(list: &str) -> ExitCode {
    let built = |is_light| {
        let targets = targets(list, is_light)?;
        if targets.is_empty() { Ok(Vec::new()) } else { build(&targets, is_light) }
    };
    let begun = Instant::now();
    let chosen = built(true).and_then(|light| Ok([light, built(false)?].concat()));
    match chosen.and_then(|binaries| choose(list, &binaries)) {
        Ok(binaries) => run_all(&binaries, scale(begun.elapsed().as_secs())),
        Err(error) => {
            eprintln!("heavy: {error}");
            ExitCode::from(4)
        }
    }
}

/// How much the tests do if they took so many seconds to build: what the environment says, or less on a slow machine.
fn scale(building: u64) -> Option<&'static str> {
    let asked = std::env::var("EVERLEAF_SCALE").ok()?;
    let before = std::env::var(ELAPSED).ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    let scale = scale_of(&asked, before, building)?;
    if scale != asked {
        println!("== {before} and {building} s until the tests are built: EVERLEAF_SCALE={scale}");
    }
    Some(scale)
}

/// The scale of CI where that was asked for, or less.
fn scale_of(asked: &str, before: u64, building: u64) -> Option<&'static str> {
    let is_slow = before > 0 && before + building > SLOW;
    match asked {
        "ci" if is_slow => Some("brief"),
        "ci" => Some("ci"),
        "brief" => Some("brief"),
        _ => None,
    }
}

/// A line of the list.
struct Line<'l> {
    package: &'l str,
    /// The test, or `*`.
    test: &'l str,
    /// The file of that test.
    part: Option<&'l str>,
    is_alone: bool,
    is_light: bool,
    is_spare: bool,
    /// Where it is.
    at: usize,
}

/// The lines of a list that name tests.
fn lines(list: &str) -> Result<Vec<Line<'_>>, String> {
    let mut lines = Vec::new();
    for (line, at) in list.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or_default().trim();
        let words: Vec<_> = line.split_whitespace().collect();
        let [package, test, ref how @ ..] = words[..] else {
            match words[..] {
                [] => continue,
                _ => return Err(format!("line {at}: `{line}` is not PACKAGE TEST")),
            }
        };
        let words = ["alone", "light", "spare"];
        if let Some(other) = how.iter().find(|word| !words.contains(word)) {
            return Err(format!("line {at}: `{other}` is none of {}", words.join(", ")));
        }
        let [is_alone, is_light, is_spare] = words.map(|word| how.contains(&word));
        let (test, part) = match test.split_once('/') {
            Some((test, part)) => (test, Some(part)),
            None => (test, None),
        };
        lines.push(Line { package, test, part, is_alone, is_light, is_spare, at });
    }
    Ok(lines)
}

/// Options that have cargo build only what is in a list: a test that is not in it may take long to build, too.
fn targets(list: &str, is_light: bool) -> Result<BTreeSet<String>, String> {
    let lines = lines(list)?.into_iter().filter(|line| line.is_light == is_light);
    targets_of(&Vec::from_iter(lines), &workspace(Path::new("."))?)
}

/// Cargo's metadata of the workspace, at its top: in a member's folder that one alone is a default member.
fn workspace(top: &Path) -> Result<serde_json::Value, String> {
    let args = ["metadata", "--no-deps", "--format-version=1", "--offline"];
    let told = output(top, "cargo", &args)?;
    serde_json::from_str(&told)
        .map_err(|e| format!("reading what cargo says of the workspace: {e}"))
}

/// The options of cargo that name what a list wants of a workspace.
fn targets_of(lines: &[Line], workspace: &serde_json::Value) -> Result<BTreeSet<String>, String> {
    let mut options = BTreeSet::new();
    let none = Vec::new();
    let packages = workspace["packages"].as_array().unwrap_or(&none);
    for Line { package, test, at, .. } in lines {
        let of_name = packages.iter().find(|one| one["name"] == **package);
        let of_name = of_name.ok_or_else(|| format!("line {at}: there is no package {package}"))?;
        options.insert(format!("--package={package}"));
        let targets = of_name["targets"].as_array().unwrap_or(&none);
        for target in targets.iter().filter(|target| target["test"] == true) {
            let (kind, name) = (target["kind"][0].as_str(), target["name"].as_str());
            let name = name.unwrap_or_default();
            if *test != "*" && *test != name {
                continue;
            }
            options.insert(match kind.unwrap_or_default() {
                "test" => format!("--test={name}"),
                "example" => format!("--example={name}"),
                "bin" => "--bins".into(),
                _ => "--lib".into(),
            });
        }
    }
    Ok(options)
}

/// The features of the packages that are built.
fn features(targets: &BTreeSet<String>) -> String {
    let is_built = |feature: &&str| {
        let package = feature.split('/').next().unwrap_or_default();
        targets.contains(&format!("--package={package}"))
    };
    HEAVY.split(',').filter(is_built).collect::<Vec<_>>().join(",")
}

/// Builds tests, and says where each is.
fn build(targets: &BTreeSet<String>, is_light: bool) -> Result<Vec<Binary>, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--features", &features(targets)]).args(targets);
    if is_light {
        cargo.args(["--config", LIGHT]);
    } else {
        cargo.args(["--release", "--config", APART]);
    }
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]).stdout(Stdio::piped());
    let mut child = cargo.spawn().map_err(|e| format!("starting cargo: {e}"))?;
    let mut binaries = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let found = binary(&line.map_err(|e| format!("reading what cargo says: {e}"))?);
        binaries.extend(found.map(|found| Binary { is_light, ..found }));
    }
    let status = child.wait().map_err(|e| format!("waiting for cargo: {e}"))?;
    if status.success() { Ok(binaries) } else { Err("the tests cannot be built".into()) }
}

/// The test binary that a message of cargo is about, if it is about one.
fn binary(message: &str) -> Option<Binary> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let program = message["executable"].as_str().filter(|_| is_test)?;
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    // `path+file:///place#name@version`, or `…/name#version` where the folder has the name.
    let (place, name) = message["package_id"].as_str()?.rsplit_once('#')?;
    let package = match name.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next()?,
    };
    Some(Binary {
        package: package.to_owned(),
        test: message["target"]["name"].as_str()?.to_owned(),
        part: None,
        main: message["target"]["src_path"].as_str().unwrap_or_default().into(),
        program: program.into(),
        dir: manifest.parent()?.to_owned(),
        is_alone: false,
        is_light: false,
        is_spare: false,
    })
}

/// The tests that the list names, in its order.
fn choose(list: &str, binaries: &[Binary]) -> Result<Vec<Binary>, String> {
    let mut chosen = Vec::new();
    for Line { package, test, part, is_alone, is_light, is_spare, at } in lines(list)? {
        let part = part.map(ToString::to_string);
        let named = |b: &&Binary| {
            b.package == package && b.is_light == is_light && (test == "*" || b.test == test)
        };
        let before = chosen.len();
        let named = binaries.iter().filter(named).cloned();
        let own = |binary| Binary { part: part.clone(), is_alone, is_spare, ..binary };
        chosen.extend(named.map(own));
        if chosen.len() == before {
            return Err(format!("line {at}: there is no test `{test}` in {package}"));
        }
    }
    Ok(chosen)
}

/// How a test is run: in its folder; with the measures of CI, or less, for [`LONGEST`] at most.
fn program(binary: &Binary, scale: Option<&str>) -> Command {
    let Some(scale) = scale else { return within(binary, None) };
    let mut command = within(binary, Some(LONGEST));
    command.env("EVERLEAF_SCALE", scale);
    command
}

/// How a test is run in its folder, for so many seconds at most.
fn within(binary: &Binary, longest: Option<u32>) -> Command {
    let mut command = match longest {
        None => Command::new(&binary.program),
        Some(seconds) => {
            let mut command = Command::new("timeout");
            command.arg("--kill-after=10").arg(seconds.to_string()).arg(&binary.program);
            command
        }
    };
    command.current_dir(&binary.dir).env("CARGO_MANIFEST_DIR", &binary.dir);
    command.env("CARGO_PKG_NAME", &binary.package).stdin(Stdio::null());
    if let Some(part) = &binary.part {
        // The filter finds its text anywhere in the name of a test: that of `mutants` is in `bd_mutants`, too.
        let others =
            stems_beside(&binary.main).filter(|other| other != part && other.ends_with(part));
        command.arg(format!("{part}::"));
        command.args(others.flat_map(|other| ["--skip".to_owned(), format!("{other}::")]));
    }
    command
}

/// The names of the files beside another one, without what follows the dot.
fn stems_beside(file: &Path) -> impl Iterator<Item = String> {
    let beside = file.parent().and_then(|dir| std::fs::read_dir(dir).ok());
    let files = beside.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    files.filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()))
}

/// Prints when each test begins, so that a run that is cut off shows what hung; what it says when it ends; then a table
/// of the times. Fails if one fails.
fn run_all(binaries: &[Binary], scale: Option<&str>) -> ExitCode {
    let (failed, times) = (Mutex::new(Vec::new()), Mutex::new(BTreeMap::new()));
    let first = Instant::now();
    let lane = |next: &Mutex<std::vec::IntoIter<&Binary>>| {
        loop {
            let taken = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(binary) = taken else { return };
            let name = binary.name();
            println!("== {name} begins after {} s", first.elapsed().as_secs());
            let begun = Instant::now();
            let ended = program(binary, scale).output();
            let seconds = begun.elapsed().as_secs();
            let (passed, says) = match &ended {
                Ok(output) => {
                    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                    let hangs = output.status.code() == Some(TIMED_OUT);
                    let end = if hangs { "it did not end, and was ended\n" } else { "" };
                    (output.status.success(), text(&output.stdout) + &text(&output.stderr) + end)
                }
                Err(error) => (false, format!("cannot be run: {error}\n")),
            };
            let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
            println!("== {name}: {seconds} s{}\n{says}", if passed { "" } else { ", FAILED" });
            if !passed {
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
            }
            times.insert(name, seconds);
        }
    };
    let is_left_out = |binary: &Binary| binary.is_spare && scale == Some("brief");
    for binary in binaries.iter().filter(|binary| is_left_out(binary)) {
        println!("== {} is left out", binary.name());
    }
    let run = binaries.iter().filter(|binary| !is_left_out(binary));
    let (alone, beside): (Vec<_>, Vec<_>) = run.partition(|binary| binary.is_alone);
    for (lanes, tests) in [(LANES, beside), (1, alone)] {
        let next = Mutex::new(tests.into_iter());
        let lane = || lane(&next);
        std::thread::scope(|scope| (0..lanes).for_each(|_| drop(scope.spawn(lane))));
    }
    for (name, seconds) in times.into_inner().unwrap_or_else(PoisonError::into_inner) {
        println!("{seconds:5} s  {name}");
    }
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("heavy: {} test binaries ran, {} failed", binaries.len(), failed.len());
    failed.iter().for_each(|name| println!("FAILED: {name}"));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, test: &str, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/r/t/Cargo.toml",
            "target":{{"name":"{test}"}},"profile":{{"test":true}},"executable":{executable}}}"#
        )
    }

    #[test]
    fn test_binaries_are_known_by_package_and_name() {
        let made = binary(&message("path+file:///r/t#p-tree@0.1.0", "crash", "\"/b/crash-1\""));
        let made = made.expect("a test binary");
        assert_eq!((&*made.package, &*made.test), ("p-tree", "crash"));
        assert_eq!((made.program, made.dir), ("/b/crash-1".into(), "/r/t".into()));
        let short = binary(&message("path+file:///r/everleaf#0.1.0", "x", "\"/b/x\""));
        assert_eq!(short.expect("a test binary").package, "everleaf");
        assert_eq!(binary(&message("path+file:///r/t#p@0.1.0", "lib", "null")), None);
        assert_eq!(binary("no message"), None);
    }

    #[test]
    fn a_list_names_tests_or_whole_packages() {
        let binary = |package: &str, test: &str| Binary {
            package: package.into(),
            test: test.into(),
            part: None,
            main: PathBuf::new(),
            program: PathBuf::new(),
            dir: PathBuf::new(),
            is_alone: false,
            is_light: false,
            is_spare: false,
        };
        let all = [binary("a", "one"), binary("b", "one"), binary("b", "two")];
        let chosen = choose("# a comment\n\nb *\na one # why\n", &all).expect("all are there");
        assert_eq!(chosen, [all[1].clone(), all[2].clone(), all[0].clone()]);
        assert!(choose("a two", &all).expect_err("no such test").starts_with("line 1: "));
        assert!(choose("a", &all).is_err());
        let chosen = choose("a *\nb two alone", &all).expect("all are there");
        assert_eq!(chosen.iter().map(|b| b.is_alone).collect::<Vec<_>>(), [false, true]);
        assert!(choose("a one first", &all).expect_err("no such word").starts_with("line 1: "));
        // Each is taken from the build that its line asks for.
        assert!(choose("a one light", &all).is_err());
        let light = all.clone().map(|binary| Binary { is_light: true, ..binary });
        let both = [&all[..], &light].concat();
        let chosen = choose("a one alone light\nb one", &both).expect("all are there");
        let how = chosen.iter().map(|b| (b.is_alone, b.is_light));
        assert_eq!(how.collect::<Vec<_>>(), [(true, true), (false, false)]);
        let chosen = choose("a one spare\nb one", &all).expect("all are there");
        assert_eq!(chosen.iter().map(|b| b.is_spare).collect::<Vec<_>>(), [true, false]);
        // A file of a program is a run of its own, whose tests have its name before theirs.
        let chosen = choose("b two/cut\nb two/model\na one", &all).expect("all are there");
        let names = chosen.iter().map(Binary::name).collect::<Vec<_>>();
        assert_eq!(names, ["b two/cut", "b two/model", "a one"]);
        let args = |binary: &Binary| {
            within(binary, None).get_args().map(|arg| arg.to_owned()).collect::<Vec<_>>()
        };
        let each: Vec<_> = chosen.iter().map(args).collect();
        assert_eq!(each, [vec!["cut::"], vec!["model::"], vec![]]);
        // The name of another file may end with that of this one.
        let dir = tempfile::tempdir().expect("a folder");
        for file in ["main.rs", "cut.rs", "power_cut.rs", "cut_off.rs"] {
            std::fs::write(dir.path().join(file), "").expect("room");
        }
        let beside = Binary { main: dir.path().join("main.rs"), ..chosen[0].clone() };
        assert_eq!(args(&beside), ["cut::", "--skip", "power_cut::"]);
        assert!(choose("b three/cut", &all).expect_err("no such test").starts_with("line 1: "));
    }

    #[test]
    fn a_test_that_hangs_is_ended_and_has_failed() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = dir.path().join("hangs");
        std::fs::write(&script, "#!/bin/sh\necho begun\nexec sleep 600\n").expect("room");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).expect("it is ours");
        let binary = Binary {
            package: "p".into(),
            test: "hangs".into(),
            part: None,
            main: PathBuf::new(),
            program: script,
            dir: dir.path().into(),
            is_alone: false,
            is_light: false,
            is_spare: false,
        };
        let output = within(&binary, Some(1)).output().expect("it starts");
        assert_eq!(output.status.code(), Some(TIMED_OUT));
        assert_eq!(output.stdout, b"begun\n");
    }

    #[test]
    fn only_what_a_list_names_is_built() {
        let target = |kind: &str, name: &str| serde_json::json!({ "kind": [kind], "name": name, "test": true });
        let a = [target("test", "one"), target("test", "two"), target("lib", "a")];
        let b =
            [target("lib", "b"), target("bin", "b"), target("test", "one"), target("example", "e")];
        let mut packages = serde_json::json!({ "packages": [{ "name": "a", "targets": a }, { "name": "b", "targets": b }] });
        let options = |list: &str, packages: &serde_json::Value| {
            let options = targets_of(&lines(list).expect("lines"), packages);
            Vec::from_iter(options.expect("all are there")).join(" ")
        };
        assert_eq!(options("a two\na one alone", &packages), "--package=a --test=one --test=two");
        assert_eq!(options("a two/cut\na two/model", &packages), "--package=a --test=two");
        assert_eq!(options("a a", &packages), "--lib --package=a");
        let all_of_b = "--bins --example=e --lib --package=a --package=b --test=one --test=two";
        assert_eq!(options("b *\na two", &packages), all_of_b);
        packages["packages"][1]["targets"][3]["test"] = false.into();
        assert_eq!(options("b *", &packages), "--bins --lib --package=b --test=one");
        assert!(targets_of(&lines("c *").expect("a line"), &packages).is_err());
    }

    #[test]
    fn a_slow_machine_does_less_of_what_ci_asks_for() {
        assert_eq!(scale_of("ci", 1_000, 1_000), Some("ci"));
        assert_eq!(scale_of("ci", 1_000, 1_101), Some("brief"));
        // Nobody waits for a run of the heavy tests alone.
        assert_eq!(scale_of("ci", 0, 9_999), Some("ci"));
        assert_eq!((scale_of("nightly", 9, 9_999), scale_of("2", 9, 9_999)), (None, None));
    }

    #[test]
    fn features_are_those_of_what_is_built() {
        let of = |targets: &[&str]| features(&targets.iter().map(ToString::to_string).collect());
        assert_eq!(of(&["--package=everleaf-tree", "--test=one"]), "everleaf-tree/heavy");
        assert_eq!(of(&["--package=xtask"]), "");
    }

    /// The modules of a program of tests that are files with tests.
    fn files_of_tests(main: &Path) -> impl Iterator<Item = String> {
        let text = std::fs::read_to_string(main).expect("a program");
        let modules = text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        let has_tests = |name: &&str| {
            let file = main.with_file_name(format!("{name}.rs"));
            std::fs::read_to_string(file).is_ok_and(|text| text.contains("#[test]"))
        };
        modules.filter(has_tests).map(ToString::to_string).collect::<Vec<_>>().into_iter()
    }

    /// A test that `cargo test` leaves out would never run if it were not in the list.
    #[test]
    fn the_list_has_what_the_short_command_leaves_out() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let workspace = workspace(top).expect("cargo knows the workspace");
        let list = include_str!("../../ci/heavy.txt");
        let lines = lines(list).expect("a list");
        let members = workspace["workspace_default_members"].as_array().expect("members");
        let mut forgotten = Vec::new();
        for package in workspace["packages"].as_array().expect("packages") {
            for target in package["targets"].as_array().expect("targets") {
                let is_left_out = !members.contains(&package["id"])
                    || target["required-features"] == serde_json::json!(["heavy"]);
                let is_named = lines.iter().any(|line| {
                    package["name"] == line.package
                        && (line.test == "*" || target["name"] == line.test)
                });
                if target["test"] == true && is_left_out && !is_named {
                    forgotten.push(format!("{} {}", package["name"], target["name"]));
                }
                let is_of =
                    |line: &&Line| package["name"] == line.package && target["name"] == line.test;
                let parts: Vec<_> =
                    lines.iter().filter(is_of).filter_map(|line| line.part).collect();
                if !parts.is_empty() {
                    let main = Path::new(target["src_path"].as_str().expect("a file"));
                    forgotten.extend(files_of_tests(main).filter(|file| !parts.contains(&&**file)));
                }
            }
        }
        assert!(forgotten.is_empty(), "not in ci/heavy.txt: {forgotten:?}");
    }
}
