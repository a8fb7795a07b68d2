//! Which published trees lose data: the table of docs/PAPERS.md.

use maud::{Markup, html};

use super::prose::prose;

const PAPERS: &str = include_str!("../../../../docs/PAPERS.md");
const HEADING: &str = "## Which published trees lose data";

/// The paragraphs of the section, and its table: a head and lines of cells.
struct Losses<'a> {
    before: String,
    rows: Vec<Vec<&'a str>>,
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// A text without the places that its links lead to, which are in the checkout.
fn unlinked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((_, behind)) = after.split_once(')') else { break };
        let (start, word) = before.rsplit_once('[').unwrap_or((before, ""));
        out.push_str(start);
        out.push_str(word);
        rest = behind;
    }
    out + rest
}

fn read(papers: &str) -> Option<Losses<'_>> {
    let (_, section) = papers.split_once(HEADING)?;
    let section = section.split("\n## ").next()?;
    let is_row = |line: &&str| line.starts_with('|');
    let before: Vec<&str> = section.lines().take_while(|line| !is_row(line)).collect();
    let is_rule = |line: &&str| line.trim_matches(['|', '-', ' ', ':']).is_empty();
    let rows = section.lines().filter(is_row).filter(|line| !is_rule(line)).map(cells).collect();
    Some(Losses { before: unlinked(before.join(" ").trim()), rows })
}

/// The section as it is on the page.
pub fn table() -> Markup {
    let Some(Losses { before, rows }) = read(PAPERS) else { return html! {} };
    let (head, rows) =
        rows.split_first().map_or((&[][..], &[][..]), |(head, rows)| (&head[..], rows));
    html! {
        p { (prose(&before)) }
        div class="scroll" { table class="claims losses" {
            thead { tr { @for cell in head { th scope="col" { (prose(cell)) } } } }
            tbody { @for row in rows { tr {
                @for (i, cell) in row.iter().enumerate() {
                    @if i == 0 { th scope="row" { (prose(cell)) } }
                    @else { td data-label=(head.get(i).copied().unwrap_or_default()) { (prose(cell)) } }
                }
            } } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_tree_and_as_many_cells_in_each() {
        let Losses { before, rows } = read(PAPERS).expect("the section is there");
        assert!(!before.contains("]("), "{before}");
        assert!(rows.len() > 8 && rows.iter().all(|row| row.len() == rows[0].len()), "{rows:?}");
        assert!(rows.iter().any(|row| row[0].starts_with("FPTree")));
        assert_eq!(unlinked("a [b](c) d (e) [f](g)"), "a b d (e) f");
    }
}
