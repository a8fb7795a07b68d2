//! A random test that fails prints the command that runs it again, and that command does so.

use std::process::Command;

use everleaf_testing::seed_or;

/// Fails with any seed but 3. Run by the test below alone.
#[test]
#[ignore = "it fails, and the test below wants that"]
fn one_that_fails() {
    let seed = seed_or(41);
    assert_eq!(seed, 3, "seed {seed}");
}

#[test]
fn a_failure_says_how_to_run_it_again() {
    let own = std::env::current_exe().expect("a program");
    let run = |seed: Option<&str>| {
        let mut test = Command::new(&own);
        test.args(["--ignored", "--exact", "one_that_fails"])
            .env_remove("EVERLEAF_SEED")
            .env_remove("EVERLEAF_SCALE");
        test.envs(seed.map(|seed| ("EVERLEAF_SEED", seed))).output().expect("it runs")
    };
    let failed = run(None);
    let says = [failed.stdout, failed.stderr].concat();
    let says = String::from_utf8_lossy(&says);
    assert!(!failed.status.success());
    let line =
        says.lines().find_map(|line| line.strip_prefix("run it again: ")).expect("a command");
    assert!(
        line.starts_with("EVERLEAF_SEED=41 cargo test ") && line.contains("-p everleaf-testing"),
        "{line}"
    );
    assert!(line.ends_with("--test again -- --exact one_that_fails"), "{line}");
    assert!(run(Some("3")).status.success(), "the environment says the seed");
}
