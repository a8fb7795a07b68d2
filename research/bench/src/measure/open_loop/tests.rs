//! Cells that run, and cells that are refused.

use super::super::tests::{cell, of, run};

fn tree(system: &str, work: &str, rest: &str) -> String {
    format!(
        "system = \"{system}\"\nwork = \"{work}\"\nload = 50\nkeys = 1000\nops = 4000\nseconds = 0.02\n\
         closed_seconds = 0.01\nmedium = \"dram\"\nslots = 32\nepoch_ms = 10\n{rest}"
    )
}

fn store(system: &str, work: &str, rest: &str) -> String {
    format!(
        "system = \"{system}\"\nwork = \"{work}\"\nload = 80\nkeys = 1000\nops = 4000\nseconds = 0.02\n\
         closed_seconds = 0.01\nvalue_bytes = 100\n{rest}"
    )
}

fn expect_figures(text: &str) {
    let figures = run("open-loop", text);
    let figure = |name: &str| of(&figures, name);
    let percentiles = ["p50", "p99", "p999", "p9999", "max"];
    let us = percentiles.map(|name| figure(&format!("latency_{name}_us")));
    assert!(us[0] > 0.0 && us.is_sorted(), "{us:?}");
    assert!(figure("achieved_kops") > 0.0 && (0.0..=1.0).contains(&figure("late_share")));
    let load = figure("offered_kops") / figure("capacity_kops");
    let asked = if text.contains("load = 50") { 0.5 } else { 0.8 };
    assert!((load - asked).abs() < 1e-9, "{load}");
}

#[test]
fn trees_serve_what_arrives() {
    for system in ["CircTree", "NvTree", "BdTree", "Montage"] {
        for work in ["insert", "mixed"] {
            expect_figures(&tree(system, work, "threads = 2"));
        }
    }
}

#[test]
fn stores_serve_what_arrives() {
    for system in ["everleaf", "btreemap"] {
        for work in ["insert", "mixed"] {
            expect_figures(&store(system, work, ""));
        }
    }
    let figures = run("open-loop", &store("everleaf", "insert", "threads = 2"));
    assert!(of(&figures, "checkpoint_pages_count") >= 0.0);
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let whole = tree("CircTree", "insert", "");
    let refused = |text: &str, word: &str| {
        let error = crate::measure::check("open-loop", &cell(text)).expect_err(text);
        assert!(format!("{error:#}").contains(word), "{error:#} does not name {word:?}");
    };
    crate::measure::check("open-loop", &cell(&whole)).expect("it makes sense");
    for (from, to, word) in [
        ("load = 50", "load = 0", "load is 0 %"),
        ("load = 50", "load = 101", "load is 101 %"),
        ("keys = 1000", "keys = 0", "keys is 0"),
        ("ops = 4000", "ops = 0", "ops is 0"),
        ("epoch_ms = 10", "threads = 0", "threads is 0"),
        ("seconds = 0.02", "seconds = 0.0", "seconds is 0"),
        ("seconds = 0.02", "seconds = nan", "seconds is NaN"),
        ("closed_seconds = 0.01", "closed_seconds = -1.0", "closed_seconds is -1"),
        ("epoch_ms = 10", "epoch_ms = 0", "epoch_ms is 0"),
        ("epoch_ms = 10", "value_bytes = 8", "value_bytes"),
        ("slots = 32", "", "slots"),
        ("medium = \"dram\"", "", "no store is called"),
        ("CircTree", "Circ", "no system is called"),
        ("insert", "scan", "scan"),
    ] {
        refused(&whole.replacen(from, to, 1), word);
    }
    refused(&store("everleaf", "mixed", "slots = 32"), "slots");
    refused(&store("everleaf-index", "mixed", ""), "words only");
    refused(&store("everleaf", "mixed", "").replace("= 100", "= 7"), "value_bytes is 7");
    refused(&store("everleaf", "mixed", "").replace("value_bytes = 100", ""), "value_bytes");
}
