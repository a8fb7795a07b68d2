//! How much a random test does, and where its random numbers start: `EVERLEAF_SCALE` and `EVERLEAF_SEED`.
//!
//! | `EVERLEAF_SCALE` | what it means |
//! |---|---|
//! | `quick`, or nothing | what `cargo test` does: seconds |
//! | `brief` | a quarter of `ci`, for a machine on which that would take too long |
//! | `ci` | what `cargo xtask ci` does in its heavy tier: minutes |
//! | `nightly` | 5 times `ci`: an hour or two |
//! | `release` | 20 times `ci`: a night |
//! | a number | so many times `quick`, a fraction of it below 1 |
//!
//! A test has its counts beside it, by [`count`] and [`size`]. Once it has said its seed, by [`seed_or`] or
//! [`at_seed`], a panic prints the command that runs it again.

use std::cell::Cell;
use std::ops::Range;
use std::path::Path;
use std::sync::Once;

const SCALE: &str = "EVERLEAF_SCALE";
const SEED: &str = "EVERLEAF_SEED";

/// A `brief` run does this part of what `ci` does.
const BRIEF: u64 = 4;
/// A `nightly` does so many times what `ci` does.
const NIGHTLY: u64 = 5;
/// So does a `release`.
const RELEASE: u64 = 20;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Scale {
    Quick,
    Brief,
    /// So many times what CI does.
    Ci(u64),
    Times(f64),
}

impl Scale {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "quick" => Some(Scale::Quick),
            "brief" => Some(Scale::Brief),
            "ci" => Some(Scale::Ci(1)),
            "nightly" => Some(Scale::Ci(NIGHTLY)),
            "release" => Some(Scale::Ci(RELEASE)),
            times => times
                .parse()
                .ok()
                .filter(|times: &f64| times.is_finite() && *times > 0.0)
                .map(Scale::Times),
        }
    }

    fn of_environment() -> Self {
        let Some(text) = std::env::var_os(SCALE) else { return Scale::Quick };
        let scale = text.to_str().and_then(Scale::parse);
        scale.unwrap_or_else(|| {
            let words = "quick, brief, ci, nightly, release";
            panic!("{SCALE} is {text:?}, not {words} or a number above 0")
        })
    }

    fn count(self, quick: u64, ci: u64) -> u64 {
        match self {
            Scale::Quick => quick,
            Scale::Brief => (ci / BRIEF).max(quick.min(ci)),
            Scale::Ci(times) => ci.saturating_mul(times),
            // A float becomes the nearest number that there is. A test that does nothing says nothing.
            Scale::Times(times) => ((quick as f64 * times) as u64).max(quick.min(1)),
        }
    }

    fn size(self, [quick, ci, release]: [u64; 3]) -> u64 {
        match self {
            Scale::Quick => quick,
            Scale::Times(times) if times <= 1.0 => quick,
            Scale::Ci(RELEASE) => release,
            Scale::Brief | Scale::Ci(_) | Scale::Times(_) => ci,
        }
    }

    fn step(self, quick: u64) -> u64 {
        match self {
            Scale::Brief | Scale::Ci(_) => 1,
            Scale::Quick => quick,
            Scale::Times(times) => ((quick as f64 / times) as u64).max(1),
        }
    }
}

/// How often a test does something: `quick` times by itself, `ci` times in CI, and more if it is told to.
///
/// # Panics
/// If `EVERLEAF_SCALE` is none: a test that ignored a mistyped scale would test too little.
pub fn count(quick: u64, ci: u64) -> u64 {
    Scale::of_environment().count(quick, ci)
}

/// How often a test does something that CI does no more often than `cargo test`.
///
/// # Panics
/// As [`count`].
pub fn times(quick: u64) -> u64 {
    count(quick, quick)
}

/// A size, a step or a choice that does not grow with a number of times: by itself, in CI, and before a release.
///
/// # Panics
/// As [`count`].
pub fn size(by_scale: [u64; 3]) -> u64 {
    Scale::of_environment().size(by_scale)
}

/// Of how many cases a test takes one: of `quick` by itself, each in CI.
///
/// # Panics
/// As [`count`].
pub fn step(quick: u64) -> u64 {
    Scale::of_environment().step(quick)
}

/// The only seed that a test is to run, if the environment says one.
///
/// # Panics
/// If `EVERLEAF_SEED` holds anything but a number.
pub fn seed() -> Option<u64> {
    let seed = crate::number(SEED);
    seed.map(at_seed)
}

/// Where the random numbers of a test start: what the environment says, or `default`. A panic of this thread prints
/// the command that runs the test again.
///
/// # Panics
/// As [`seed`].
pub fn seed_or(default: u64) -> u64 {
    at_seed(crate::number(SEED).unwrap_or(default))
}

/// The seeds that a test runs one after the other: all of these, or the only one that the environment says.
///
/// # Panics
/// As [`seed`].
pub fn seeds(all: Range<u64>) -> impl Iterator<Item = u64> {
    let seeds = crate::number(SEED).map_or(all, |one| one..one.saturating_add(1));
    seeds.map(at_seed)
}

thread_local! {
    /// The seed that this thread is at.
    static AT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Says that this thread is at a seed, which it answers. A panic of this thread prints the command that runs it again.
pub fn at_seed(seed: u64) -> u64 {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            hook(info);
            if let Some(seed) = AT.try_with(Cell::get).ok().flatten() {
                eprintln!("run it again: {}", again(seed));
            }
        }));
    });
    AT.set(Some(seed));
    seed
}

/// The command that runs the test of this thread again.
fn again(seed: u64) -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    // Cargo puts a hash behind it.
    let target = program.rsplit_once('-').map_or(program, |(target, _)| target);
    let thread = std::thread::current();
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (package, folder) = (variable("CARGO_PKG_NAME"), variable("CARGO_MANIFEST_DIR"));
    command(&Run {
        seed,
        scale: &variable(SCALE),
        package: &package,
        target,
        folder: Path::new(&folder),
        test: thread.name().unwrap_or_default(),
        is_release: !cfg!(debug_assertions),
    })
}

/// All that is known of a run.
struct Run<'r> {
    seed: u64,
    scale: &'r str,
    package: &'r str,
    target: &'r str,
    /// Where the package is.
    folder: &'r Path,
    /// The test, or nothing on a thread that has no name.
    test: &'r str,
    is_release: bool,
}

fn command(run: &Run) -> String {
    let mut line = format!("{SEED}={} ", run.seed);
    if !run.scale.is_empty() {
        line += &format!("{SCALE}={} ", run.scale);
    }
    line += "cargo test";
    if run.is_release {
        line += " --release";
    }
    if !run.package.is_empty() {
        line += &format!(" -p {}", run.package);
    }
    let tests = run.folder.join("tests");
    let is_test = tests.join(run.target).with_extension("rs").is_file()
        || tests.join(run.target).join("main.rs").is_file();
    let manifest = std::fs::read_to_string(run.folder.join("Cargo.toml")).unwrap_or_default();
    let needs_heavy = format!("name = \"{}\"\nrequired-features = [\"heavy\"]", run.target);
    if manifest.contains(&needs_heavy) {
        line += " --features heavy";
    }
    line += &if is_test { format!(" --test {}", run.target) } else { " --lib --bins".into() };
    if !run.test.is_empty() && run.test != "main" {
        line += &format!(" -- --exact {}", run.test);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_a_word_or_a_number_of_times() {
        let count = |text: &str| Scale::parse(text).map(|scale| scale.count(20, 500));
        assert_eq!((count(""), count("quick"), count("ci")), (Some(20), Some(20), Some(500)));
        assert_eq!(
            (count("nightly"), count("release"), count("3")),
            (Some(2_500), Some(10_000), Some(60))
        );
        assert_eq!(["0", "-1", "CI", "inf", "much"].map(count), [None; 5]);
        assert_eq!((count("brief"), Scale::Brief.count(20, 21)), (Some(125), 20));
        assert_eq!((Scale::Brief.size([61, 5, 1]), Scale::Brief.step(60)), (5, 1));
        let size = |text: &str| Scale::parse(text).map(|scale| scale.size([61, 5, 1]));
        assert_eq!((size("quick"), size("1"), size("ci")), (Some(61), Some(61), Some(5)));
        assert_eq!((size("7"), size("release")), (Some(5), Some(1)));
        assert_eq!(
            (count("0.5"), count("0.001"), count("1e99")),
            (Some(10), Some(1), Some(u64::MAX))
        );
        assert_eq!(Scale::Times(0.5).count(0, 45), 0, "what quick leaves out");
        let step = |text: &str| Scale::parse(text).map(|scale| scale.step(60));
        assert_eq!((step("quick"), step("ci"), step("release")), (Some(60), Some(1), Some(1)));
        assert_eq!((step("2"), step("0.1"), step("1000")), (Some(30), Some(600), Some(1)));
    }

    #[test]
    fn the_command_runs_one_test_of_one_program() {
        let folder = tempfile_of_manifest();
        let mut run = Run {
            seed: 7,
            scale: "ci",
            package: "p",
            target: "cuts",
            folder: &folder,
            test: "deep::of_a_disk",
            is_release: true,
        };
        let heavy = "EVERLEAF_SEED=7 EVERLEAF_SCALE=ci cargo test --release -p p --features heavy --test cuts \
                     -- --exact deep::of_a_disk";
        assert_eq!(command(&run), heavy);
        (run.target, run.scale, run.is_release, run.test) = ("db", "", false, "");
        assert_eq!(command(&run), "EVERLEAF_SEED=7 cargo test -p p --test db");
        run.target = "p";
        assert_eq!(command(&run), "EVERLEAF_SEED=7 cargo test -p p --lib --bins");
        std::fs::remove_dir_all(&folder).expect("it is there");
    }

    /// A package with two tests, of which one is heavy.
    fn tempfile_of_manifest() -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("everleaf-testing-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("tests/db")).expect("room");
        let manifest = "[[test]]\nname = \"cuts\"\nrequired-features = [\"heavy\"]\n";
        for (file, text) in
            [("Cargo.toml", manifest), ("tests/cuts.rs", ""), ("tests/db/main.rs", "")]
        {
            std::fs::write(folder.join(file), text).expect("room");
        }
        folder
    }
}
