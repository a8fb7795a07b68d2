//! `header [--check]`: the header of the C library, made of its source. `capi TASK`: what only the library that was built
//! can tell.
//!
//! The source is read file by file, in the order in which `lib.rs` names its modules: nothing is compiled for it, and the
//! header has the order of the source.

use std::path::Path;
use std::process::ExitCode;

type Failure = Box<dyn std::error::Error>;

/// The header that is checked in.
const HEADER: &str = "crates/capi/include/everleaf.h";

/// Writes the header, or compares it with what would be written.
pub fn header(root: &Path, is_check: bool) -> ExitCode {
    let done = make(root).and_then(|made| match is_check {
        true => compare(root, &made),
        false => Ok(std::fs::write(root.join(HEADER), made)?),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("header: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(root: &Path, made: &str) -> Result<(), Failure> {
    let kept = std::fs::read_to_string(root.join(HEADER))?;
    let mut lines = made.lines().zip(kept.lines()).enumerate();
    let differs = lines.find(|(_, (made, kept))| made != kept);
    match differs {
        Some((at, (made, kept))) => Err(format!(
            "{HEADER}:{} is `{kept}`, and the source says `{made}`: run cargo xtask header",
            at + 1
        )
        .into()),
        None if made != kept => Err(format!(
            "{HEADER} has not as many lines as the source says: run cargo xtask header"
        )
        .into()),
        None => {
            println!("header: {HEADER} is what the source says");
            Ok(())
        }
    }
}

/// The header that the source says.
fn make(root: &Path) -> Result<String, Failure> {
    let folder = root.join("crates/capi");
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml"))?;
    let lib = std::fs::read_to_string(folder.join("src/lib.rs"))?;
    let mut builder = cbindgen::Builder::new().with_config(config);
    for module in modules(&lib) {
        builder = builder.with_src(folder.join(format!("src/{module}.rs")));
    }
    let mut bytes = Vec::new();
    builder.generate()?.write(&mut bytes);
    Ok(String::from_utf8(bytes)?)
}

/// The modules of a crate but its tests.
fn modules(lib: &str) -> Vec<&str> {
    let names = lib.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    names.filter(|name| *name != "tests").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_no_part_of_the_header() {
        assert_eq!(
            modules("//! mod x;\nmod call;\npub use y;\nmod tree;\nmod tests;\n"),
            ["call", "tree"]
        );
    }

    #[test]
    fn the_header_is_what_the_source_says() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        let made = make(root).expect("a header");
        compare(root, &made).expect("the same");
        compare(root, &made.replacen("int everleaf_put(", "int everleaf_set(", 1))
            .expect_err("another one");
        compare(root, &format!("{made}\n")).expect_err("a longer one");
    }
}
