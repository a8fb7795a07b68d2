//! A pipe that nobody reads any more ends a task without a word.

#![cfg(unix)]

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use signal_hook::consts::SIGPIPE;

#[test]
fn a_task_whose_reader_is_gone_ends_without_a_word() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut tidy = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let tidy = tidy.arg("tidy").current_dir(folder).stdout(writer).stderr(Stdio::piped());
    let out = tidy.output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    assert_eq!(out.status.signal(), Some(SIGPIPE), "{}", out.status);
}
