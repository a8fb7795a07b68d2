//! Codes: each error has one of its own, and the constants, the messages and the guide agree.

use std::collections::BTreeSet;

use super::*;
use crate::codes::*;

/// The variants of `db::Error`, by the list of what programs can name.
fn variants() -> BTreeSet<String> {
    let list = include_str!("../../../../ci/public-api/everleaf.txt");
    let source = include_str!("../../../pmem/src/error.rs");
    let (_, variants) = source.split_once("pub enum Error {\n").expect("the enum");
    let (variants, _) = variants.split_once("\n}\n").expect("its end");
    let names = variants.lines().filter_map(|line| {
        let name = line.strip_prefix("    ")?.split([' ', ',', '(']).next()?;
        name.starts_with(char::is_uppercase).then(|| name.to_owned())
    });
    let names: BTreeSet<_> = names.collect();
    let with_fields = list.lines().filter_map(|line| line.strip_prefix("field everleaf::Error::"));
    for name in with_fields.filter_map(|line| line.split('.').next()) {
        assert!(names.contains(name), "{name} was not found in the source");
    }
    names
}

/// `KeyTooLong` as `EVERLEAF_KEY_TOO_LONG`.
fn constant(variant: &str) -> String {
    let mut name = String::from("EVERLEAF");
    for c in variant.chars() {
        if c.is_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

#[test]
fn each_error_has_a_code_of_its_own_with_a_name_and_a_line_in_the_guide() {
    let known: Vec<_> =
        ALL.iter().map(|(name, code)| (name.to_str().expect("UTF-8"), *code)).collect();
    let codes: BTreeSet<_> = known.iter().map(|(_, code)| code).collect();
    assert_eq!(codes.len(), known.len(), "a number was given twice");
    let source = include_str!("../../../pmem/src/error.rs");
    for variant in variants() {
        let name = constant(&variant);
        let code = known.iter().find(|(known, _)| *known == name);
        let (_, code) = code.unwrap_or_else(|| panic!("no constant {name}"));
        let arms = [
            format!("Error::{variant} => {code},"),
            format!("Error::{variant} {{ .. }} => {code},"),
        ];
        assert!(
            arms.iter().any(|arm| source.contains(arm)),
            "{name} is {code}, and Error::code says another number"
        );
    }
    assert_eq!(variants().len() + 4, known.len(), "a constant stands for no error");
    let guide = include_str!("../../../../docs/guide/c.md");
    for (name, code) in known {
        let row = format!("| {code} | `{name}` |");
        assert!(guide.contains(&row), "docs/guide/c.md has no row {row}");
        // SAFETY: the name is a text.
        assert_eq!(unsafe { CStr::from_ptr(everleaf_code_name(code)) }.to_str(), Ok(name));
    }
    // SAFETY: as above.
    assert_eq!(unsafe { CStr::from_ptr(everleaf_code_name(-99)) }, c"unknown");
}

#[test]
fn a_failure_stays_until_the_next_one_of_its_thread() {
    assert_eq!((everleaf_last_code(), everleaf_last_errno(), message()), (0, 0, String::new()));
    let mut db = null_mut();
    let missing = c"/nonexistent/folder/p.ever".as_ptr();
    // SAFETY: the pointers are good.
    let code = unsafe { everleaf_open(missing, null(), &raw mut db) };
    assert_eq!((code, everleaf_last_code(), everleaf_last_errno()), (EVERLEAF_IO, EVERLEAF_IO, 2));
    assert!(db.is_null() && message().contains("/nonexistent/folder"), "{}", message());
    let before = message();
    // SAFETY: as above.
    let memory = made(everleaf_db_free, |out| unsafe { everleaf_open_in_memory(null(), out) });
    assert!(memory.is_some() && message() == before);
    std::thread::spawn(|| assert_eq!((everleaf_last_code(), message()), (0, String::new())))
        .join()
        .expect("fine");
    // SAFETY: NULL is looked at.
    assert_eq!(unsafe { everleaf_sync(null()) }, EVERLEAF_INVALID);
    assert_eq!((everleaf_last_errno(), message()), (0, "everleaf_sync: the handle is NULL".into()));
}

#[test]
fn each_option_of_the_library_has_a_function_of_its_name() {
    let list = include_str!("../../../../ci/public-api/everleaf.txt");
    let setters = list.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("fn everleaf::Options::")?.split_once('(')?;
        (rest.starts_with("self, ") && rest.ends_with("-> Self")).then_some(name)
    });
    let setters: BTreeSet<_> = setters.collect();
    let own = exported();
    let own = own.iter().filter_map(|name| name.strip_prefix("everleaf_options_"));
    let own: BTreeSet<_> = own.filter(|name| !["new", "free"].contains(name)).collect();
    assert!(setters.len() > 10);
    assert_eq!(own, setters);
}
