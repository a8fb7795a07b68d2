//! The lists that `check`, `ci`, `nightly`, `fix` and `bench` run: steps, each printed before it runs. The first one
//! that fails ends the list.
//!
//! These lists are the only ones: `.ci/run` and the workflows in `.github/` call them.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Without these the tests that take minutes are not built.
pub const HEAVY: &str = "everleaf-tree/heavy,everleaf-pool/heavy,everleaf/heavy,everleaf-cli/heavy,everleaf-rivals/heavy";

/// How many images the heavy tests of a run look at, at least: crash images, and those inside of recovery.
const IMAGES: [&str; 2] = ["10000000", "1000000"];

/// The variable that tells a step how many seconds those before it took.
pub const ELAPSED: &str = "EVERLEAF_ELAPSED";

/// The exit code of a script of `ci/` if the machine lacks what it needs.
const SKIPPED: i32 = 77;

/// A command, or a task of this program.
#[derive(Debug, Clone, Default)]
pub struct Step {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    may_skip: bool,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}='{}' ", value.display())?;
        }
        let is_own = self.program == own();
        write!(
            f,
            "{}",
            if is_own { "cargo xtask".into() } else { self.program.to_string_lossy() }
        )?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", arg.display()))
    }
}

/// This program.
fn own() -> OsString {
    std::env::current_exe().map_or_else(|_| "xtask".into(), OsString::from)
}

impl Step {
    fn new(program: impl Into<OsString>, line: &str) -> Self {
        let args = line.split_whitespace().map(OsString::from).collect();
        Self { program: program.into(), args, ..Self::default() }
    }

    /// A command of cargo.
    pub fn cargo(line: &str) -> Self {
        Self::new("cargo", line)
    }

    /// Another task of this program.
    fn task(line: &str) -> Self {
        Self::new(own(), line)
    }

    /// A script, which may say that the machine lacks what it needs.
    pub fn script(line: &str) -> Self {
        let (script, args) = line.split_once(' ').unwrap_or((line, ""));
        Self { may_skip: true, ..Self::new(script, args) }
    }

    /// With further arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = OsString>) -> Self {
        self.args.extend(args);
        self
    }

    /// With a variable of the environment.
    pub fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Runs it at the top of the repository, so long after the first step. Variables in which cargo told this program of its
    /// own package are kept from it.
    fn run(&self, root: &Path, elapsed: Duration) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(root);
        for (name, _) in std::env::vars_os() {
            let own =
                ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
            if own.iter().any(|start| name.to_string_lossy().starts_with(start)) {
                command.env_remove(name);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.env(ELAPSED, elapsed.as_secs().to_string());
        let status = command.status().map_err(|e| format!("starting {self}: {e}"))?;
        match status.code() {
            Some(0) => Ok(()),
            Some(SKIPPED) if self.may_skip => Ok(()),
            _ => Err(format!("{self}: {status}")),
        }
    }
}

/// Runs one step after the other, and prints when each begins and the seconds that it took.
pub fn run(root: &Path, steps: &[Step]) -> ExitCode {
    let (mut took, first) = (Vec::new(), Instant::now());
    for step in steps {
        let elapsed = first.elapsed();
        println!("== {step} (after {} s)", elapsed.as_secs());
        let begun = Instant::now();
        if let Err(what) = step.run(root, elapsed) {
            eprintln!("xtask: {what}");
            return ExitCode::FAILURE;
        }
        took.push((begun.elapsed().as_secs(), step));
    }
    if took.len() > 1 {
        took.iter().for_each(|(seconds, step)| println!("{seconds:5} s  {step}"));
    }
    ExitCode::SUCCESS
}

/// The output of a command.
pub fn output(root: &Path, program: &str, args: &[&str]) -> Result<String, String> {
    let told = Command::new(program).args(args).current_dir(root).output();
    let told = told.map_err(|e| format!("starting {program}: {e}"))?;
    match told.status.success() {
        true => Ok(String::from_utf8_lossy(&told.stdout).into_owned()),
        false => {
            Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&told.stderr)))
        }
    }
}

fn format() -> Step {
    Step::cargo("fmt --all --check")
}

/// The format, lints, the rules of the repository, and unit tests: what to run before a commit.
pub fn check() -> Vec<Step> {
    vec![
        format(),
        Step::cargo("clippy -q --workspace --all-targets -- -D warnings"),
        Step::task("tidy"),
        Step::cargo("test -q --lib --bins"),
    ]
}

/// The steps that must pass before a change goes in: the README's test command, and the tests that take minutes.
pub fn ci(root: &Path) -> Vec<Step> {
    let mut steps = vec![
        format(),
        Step::cargo(&format!("clippy --workspace --features {HEAVY} --all-targets -- -D warnings")),
        Step::cargo("clippy -p everleaf --features tracing,metrics --all-targets -- -D warnings"),
        Step::cargo("clippy -p everleaf --no-default-features -- -D warnings"),
        Step::task("tidy"),
        Step::cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings"),
        Step::task("api"),
        Step::cargo("test"),
        Step::cargo(
            "test -p everleaf-file -p everleaf --features everleaf/tracing,everleaf/metrics --test tracing --test metrics",
        ),
        Step::cargo("test -p everleaf --no-default-features --test storage"),
        Step::script("ci/instructions.sh"),
        Step { may_skip: true, ..Step::task("way") },
    ];
    steps.extend(heavy(root, "ci"));
    steps
}

/// The tests that take minutes, and a minimum of what their explorations of crash images add up to. A scale that the
/// environment names is the one that counts.
fn heavy(root: &Path, scale: &str) -> Vec<Step> {
    let scale = std::env::var_os("EVERLEAF_SCALE").unwrap_or_else(|| scale.into());
    // A test runs in the folder of its crate.
    let tally = root.join("target/tally");
    let heavy = Step::task("heavy").env("EVERLEAF_SCALE", scale).env("EVERLEAF_TALLY", tally);
    let images = format!("images target/tally {}", IMAGES.join(" "));
    vec![Step::new("rm", "-f target/tally"), heavy, Step::task(&images)]
}

/// The steps that take hours: the heavy tests at a larger scale, sanitizers and fuzzing.
pub fn nightly(root: &Path) -> Vec<Step> {
    let mut steps = heavy(root, "nightly");
    let scripts =
        ["ci/miri.sh", "ci/asan.sh", "ci/tsan.sh", "ci/aarch64_check.sh", "ci/fuzz.sh 600"];
    steps.extend(scripts.map(Step::script));
    let tasks = [
        "capi check",
        "capi valgrind",
        "capi asan",
        "capi tsan",
        "index check",
        "index valgrind",
        "index asan",
    ];
    steps.extend(tasks.map(|task| Step { may_skip: true, ..Step::task(task) }));
    steps
}

/// Mends what can be mended without thought.
pub fn fix() -> Vec<Step> {
    let clippy = format!(
        "clippy --fix --allow-dirty --allow-staged --workspace --features {HEAVY} --all-targets"
    );
    vec![Step::cargo(&clippy), Step::cargo("fmt --all")]
}

/// The benchmark.
pub fn bench(args: Vec<OsString>) -> Vec<Step> {
    vec![Step::cargo("run --release -p everleaf-bench --").args(args)]
}

/// Counts of instructions.
pub fn instructions(renew: bool) -> Vec<Step> {
    vec![Step::script(if renew { "ci/instructions.sh --renew" } else { "ci/instructions.sh" })]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_that_fails_ends_the_list() {
        let dir = tempfile::tempdir().expect("a folder");
        let touch = |name: &str| Step::new("touch", name);
        let ok = [touch("a"), Step::script("false_is_no_script"), touch("b")];
        assert_eq!(run(dir.path(), &ok[..1]), ExitCode::SUCCESS);
        assert_eq!(run(dir.path(), &ok), ExitCode::FAILURE);
        assert!(dir.path().join("a").exists() && !dir.path().join("b").exists());
    }

    #[test]
    fn a_script_may_be_skipped_and_a_command_may_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let exit = |code: i32| Step::new("sh", "-c").args([format!("exit {code}").into()]);
        let script = |code| Step { may_skip: true, ..exit(code) };
        let run = |step: Step| step.run(dir.path(), Duration::ZERO);
        assert!(run(script(SKIPPED)).is_ok());
        assert!(run(script(1)).is_err());
        assert!(run(exit(SKIPPED)).is_err());
    }

    #[test]
    fn a_step_hears_how_long_those_before_it_took() {
        let dir = tempfile::tempdir().expect("a folder");
        let asks = Step::new("sh", "-c").args([format!("test ${ELAPSED} = 61").into()]);
        assert!(asks.run(dir.path(), Duration::from_secs(61)).is_ok());
        assert!(asks.run(dir.path(), Duration::from_secs(60)).is_err());
    }

    #[test]
    fn a_step_is_shown_as_what_one_types() {
        let step = Step::task("heavy list").env("EVERLEAF_SEED", "1");
        assert_eq!(step.to_string(), "EVERLEAF_SEED='1' cargo xtask heavy list");
        let ci: Vec<_> = ci(Path::new("/r")).iter().map(Step::to_string).collect();
        assert!(ci.contains(&"cargo test".to_owned()), "the README's test command: {ci:?}");
        assert!(check().iter().all(|step| !step.to_string().contains("heavy")));
    }
}
