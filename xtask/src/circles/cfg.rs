//! Whether code is there when nobody tests.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// Whether the attributes keep what they stand on out of every build but that of unit tests.
pub fn only_for_tests(attrs: &[Attribute]) -> bool {
    attrs.iter().filter(|attr| attr.path().is_ident("cfg")).any(|attr| {
        attr.parse_args::<Meta>().is_ok_and(|condition| holds(&condition) == Some(false))
    })
}

/// The value of a condition without `test`, if that can be told.
fn holds(condition: &Meta) -> Option<bool> {
    if condition.path().is_ident("test") {
        return Some(false);
    }
    let Meta::List(list) = condition else { return None };
    let inner = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let mut inner = inner.iter().map(holds);
    if list.path.is_ident("not") {
        inner.next()?.map(|inner| !inner)
    } else if list.path.is_ident("all") {
        inner.any(|part| part == Some(false)).then_some(false)
    } else if list.path.is_ident("any") {
        inner.all(|part| part == Some(false)).then_some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_that_need_a_test_are_told_from_others() {
        let only = |cfg: &str| {
            let item: syn::ItemFn = syn::parse_str(&format!("#[cfg({cfg})] fn f() {{}}")).unwrap();
            only_for_tests(&item.attrs)
        };
        for yes in ["test", "all(test, loom)", "any(test, test)", "not(not(test))"] {
            assert!(only(yes), "{yes}");
        }
        for no in ["not(test)", "any(test, loom)", "loom", "not(loom)", "feature = \"test\""] {
            assert!(!only(no), "{no}");
        }
    }
}
