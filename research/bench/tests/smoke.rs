//! Runs all experiments at the smallest scale, twice, and reads what comes of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command with these arguments; what it printed.
fn bench(folder: &Path, args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_everleaf-bench"))
        .args(args)
        .current_dir(folder)
        .output()
        .expect("it runs");
    let said = String::from_utf8(out.stdout).expect("text");
    let errors = String::from_utf8_lossy(&out.stderr);
    // The failure itself comes last: the middle of a long text may be left out where it is read.
    let failed: Vec<_> = errors.lines().filter(|line| line.contains("failed")).collect();
    assert!(out.status.success(), "{said}\n{errors}\n{args:?}: {}: {failed:#?}", out.status);
    said
}

/// Names and titles of all experiments, as `list` has them.
fn experiments(listed: &str) -> Vec<(String, String)> {
    let of = |line: &str| {
        let name = line.split_whitespace().next().expect("a name").to_string();
        let (_, rest) = line.split_once('×').expect("cells × rounds");
        let title = rest.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        (name, title.trim().to_string())
    };
    // If there is one only, it is described, too.
    let is_head = |line: &&str| !line.starts_with(' ') && line.contains(" cells × ");
    listed.lines().filter(is_head).map(of).collect()
}

/// The counts that `run` says of an experiment: measured, kept.
fn measured(said: &str, name: &str) -> (u64, u64) {
    let line = said.lines().find(|line| line.split_whitespace().next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("nothing of {name} in\n{said}"));
    let words: Vec<&str> = line.split_whitespace().collect();
    let before = |what: &str| {
        let at = words.iter().position(|word| word.trim_end_matches(',') == what);
        words[at.expect("a count") - 1].parse().expect("a number")
    };
    (before("measured"), before("kept"))
}

fn rows(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count().saturating_sub(1))
}

fn is_timed(metric: &str) -> bool {
    !metric.contains("modelled")
        && ["ns", "us", "ms", "mops", "kops", "mib_s"]
            .iter()
            .any(|unit| metric == *unit || metric.ends_with(&format!("_{unit}")))
}

/// A piece of a page: a tag with its attributes, or the text between two tags.
#[derive(Debug, Clone, PartialEq)]
enum Piece<'a> {
    Tag(&'a str),
    Text(&'a str),
}

/// A page without the texts of its `style` elements, in pieces. Attributes have no `>` in them, as
/// they are escaped.
fn pieces(html: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        if start > 0 {
            found.push(Piece::Text(&rest[..start]));
        }
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        found.push(Piece::Tag(tag));
        rest = &rest[end + 1..];
        if tag == "style" {
            rest = &rest[rest.find("</style").expect("the style ends")..];
        }
    }
    assert_eq!(rest.trim(), "", "nothing after the last tag");
    found
}

fn name_of(tag: &str) -> &str {
    tag.split_whitespace().next().unwrap_or_default()
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

/// Each tag that is opened is closed, in order; no attribute loads anything.
fn check_tags(pieces: &[Piece]) {
    let mut open: Vec<&str> = Vec::new();
    for piece in pieces {
        let Piece::Tag(tag) = piece else { continue };
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order, within {open:?}");
        } else if !tag.starts_with('!') && !["meta", "link", "br"].contains(&name_of(tag)) {
            open.push(name_of(tag));
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes of {tag}");
        assert!(!tag.contains("http:") && !tag.contains("https:"), "{tag}");
        assert!(attribute(tag, "src").is_none(), "{tag}");
        assert!(!["script", "iframe", "img", "object"].contains(&name_of(tag)), "{tag}");
    }
    assert!(open.is_empty(), "not closed: {open:?}");
}

/// All that the page says of a time which was taken once is a dash. Returns how many there were.
fn check_lone_times(pieces: &[Piece]) -> usize {
    let (mut lone, mut metrics, mut rounds, mut column) = (0, Vec::new(), 0, 0);
    let mut claim: Option<&str> = None;
    for (i, piece) in pieces.iter().enumerate() {
        let Piece::Tag(tag) = piece else { continue };
        match (name_of(tag), attribute(tag, "data-metric")) {
            ("table", _) => metrics.clear(),
            ("th", Some(metric)) => metrics.push(metric),
            ("tr", metric) => {
                let of = attribute(tag, "data-rounds").map_or(0, |n| n.parse().expect("a number"));
                (rounds, column, claim) = (of, 0, metric);
            }
            ("td", _) => {
                let text = match &pieces[i + 1] {
                    Piece::Text(text) => text,
                    Piece::Tag(_) => "",
                };
                let metric = match claim {
                    Some(metric) => {
                        (attribute(tag, "data-label") == Some("Ours")).then_some(metric)
                    }
                    None => metrics.get(column).copied(),
                };
                if rounds == 1 && metric.is_some_and(is_timed) {
                    assert_eq!(text, "–", "{metric:?}, taken once");
                    lone += 1;
                }
                column += 1;
            }
            _ => {}
        }
    }
    lone
}

/// A title as a page has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[test]
fn all_experiments_run_resume_and_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let all = experiments(&bench(folder, &["list"]));
    assert!(!all.is_empty());

    let run = ["run", "all", "--scale", "smoke", "--results", "results"];
    let first = bench(folder, &run);
    let file = |name: &str| folder.join("results/smoke").join(format!("{name}.csv"));
    let mut counts = Vec::new();
    for (name, _) in &all {
        let (done, kept) = measured(&first, name);
        let has_rows = rows(&file(name)) > 0;
        assert_eq!(kept, 0, "{name}: the folder was empty");
        let mut after = first.lines().skip_while(|line| !line.starts_with(&format!("{name} ")));
        let is_skipped = after.nth(1).is_some_and(|line| line.trim().starts_with("skipped"));
        assert!(has_rows || is_skipped, "{name} has no rows, and nothing was skipped");
        counts.push((done, rows(&file(name))));
    }

    let second = bench(folder, &run);
    for ((name, _), (done, rows_before)) in all.iter().zip(&counts) {
        assert_eq!(measured(&second, name), (0, *done), "{name}: what is there is kept");
        assert_eq!(rows(&file(name)), *rows_before, "{name}");
    }

    let shown = bench(folder, &["compare", "all", "--scale", "smoke", "--results", "results"]);
    for ((name, title), (_, rows)) in all.iter().zip(&counts) {
        assert_eq!(shown.contains(&format!("{name}: {title}")), *rows > 0, "{name}");
    }
    check_report(folder, &all);
}

fn check_report(folder: &Path, all: &[(String, String)]) {
    let report = ["report", "--scale", "smoke", "--results", "results", "--out", "out/report.html"];
    bench(folder, &report);
    let html = fs::read_to_string(folder.join("out/report.html")).expect("a report");
    for (name, title) in all {
        assert!(html.contains(&escaped(title)), "{name}: {title}");
    }
    let pieces = pieces(&html);
    check_tags(&pieces);
    assert!(check_lone_times(&pieces) > 0, "there are times, and each was taken once");
    assert_eq!(pieces.iter().filter(|piece| **piece == Piece::Tag("/article")).count(), all.len());
    assert!(!html.contains("NaN") && !html.contains("inf\u{a0}"));
    let loads = ["url(http", "@import", "url(//"];
    assert!(loads.iter().all(|what| !html.contains(what)), "the styles load nothing");
}

#[test]
fn a_report_and_plots_of_nothing_are_made_or_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let out: PathBuf = folder.path().join("empty.html");
    bench(folder.path(), &["report", "--out", out.to_str().expect("text")]);
    let html = fs::read_to_string(&out).expect("a report");
    check_tags(&pieces(&html));
    assert!(html.contains("Not run at this scale."));
    let refused = Command::new(env!("CARGO_BIN_EXE_everleaf-bench"))
        .args(["plot", "all", "--results", "none"])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("nothing to draw"));
}

#[test]
fn tags_that_are_not_closed_are_noticed() {
    check_tags(&pieces("<!DOCTYPE html><p class=\"a\">x<b>y</b></p>"));
    for wrong in ["<p><b></p></b>", "<p>", "<p><img src=\"http://a\"></img></p>"] {
        assert!(std::panic::catch_unwind(|| check_tags(&pieces(wrong))).is_err(), "{wrong}");
    }
    let lone = |figure: &str| {
        format!(
            "<table><tr><th data-metric=\"get_ns\"></th></tr><tr data-rounds=\"1\"><th></th>\
             <td>{figure}</td></tr></table>"
        )
    };
    assert_eq!(check_lone_times(&pieces(&lone("–"))), 1);
    assert!(std::panic::catch_unwind(|| check_lone_times(&pieces(&lone("5")))).is_err());
}

#[test]
#[cfg(unix)]
fn a_pipe_that_nobody_reads_is_the_end() {
    use std::os::unix::process::ExitStatusExt;

    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut bench = Command::new(env!("CARGO_BIN_EXE_everleaf-bench"));
    let out = bench.arg("list").stdout(writer).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    assert_eq!(out.status.signal(), Some(signal_hook::consts::SIGPIPE), "{}", out.status);
}
