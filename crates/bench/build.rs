//! What a result must say of the program that made it: compiler, commit.

use std::path::Path;
use std::process::Command;

/// What a command prints, trimmed; `None` if it fails or is not there.
fn said(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
}

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = said(&rustc, &["--version"]).unwrap_or_else(|| "unknown".into());
    let commit = said("git", &["rev-parse", "--short=10", "HEAD"]).map_or_else(
        || "unknown".to_string(),
        |commit| match said("git", &["status", "--porcelain", "--untracked-files=no", ".."]) {
            Some(changed) if changed.is_empty() => commit,
            _ => format!("{commit}-changed"),
        },
    );
    println!("cargo:rustc-env=EVERLEAF_RUSTC={version}");
    println!("cargo:rustc-env=EVERLEAF_COMMIT={commit}");
    // All that is measured lies in the crates; a commit moves the log of HEAD.
    println!("cargo:rerun-if-changed=..");
    if let Some(log) = said("git", &["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo:rerun-if-changed={log}");
    }
}
