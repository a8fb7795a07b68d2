//! The menu: what `cargo xtask` prints, and what it refuses.

use std::process::{Command, Output};

fn xtask(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(args).output().expect("it runs")
}

#[test]
fn without_a_task_the_menu_is_printed() {
    let menu = xtask(&[]);
    assert_eq!(menu.status.code(), Some(2));
    let menu = String::from_utf8_lossy(&menu.stderr).into_owned();
    let tasks = [
        "check",
        "fix",
        "ci",
        "heavy",
        "nightly",
        "tidy",
        "bench",
        "instructions",
        "mutants",
        "release",
    ];
    for task in tasks {
        assert!(menu.lines().any(|line| line.trim_start().starts_with(task)), "{task}: {menu}");
        assert_eq!(xtask(&[task, "--help"]).status.code(), Some(0), "{task}");
    }
}

#[test]
fn nothing_is_released_by_a_word_too_few() {
    let refused = xtask(&["release"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--dry-run"));
}
