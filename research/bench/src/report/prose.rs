//! Texts of experiments as they are shown: what is in backticks by the name that people know, or as code.

use maud::{Markup, html};

use crate::plot::names;

/// A text whose parts in backticks are systems, which get their names, or words of programs.
pub fn prose(text: &str) -> Markup {
    html! {
        @for (i, part) in text.trim().split('`').enumerate() {
            @if i % 2 == 0 { (part) } @else if names::is_system(part) { (names::system(part)) } @else { code { (part) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_have_their_names_and_other_words_are_code() {
        let html = prose(" `CircTree` on `dax`, & so on ").into_string();
        assert_eq!(html, "Circ-Tree with sentinels on <code>dax</code>, &amp; so on");
    }
}
