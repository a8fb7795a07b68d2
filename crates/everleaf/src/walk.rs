//! Walks the whole pool: counts for `stat`, damage for `check`.

use everleaf_pmem::{Error, Medium};
use everleaf_tree::{TreeReport, leaks};

use crate::Result;
use crate::engine::Engine;
use crate::stats::{Damage, PageCount, Stats, TreeStats};

/// The reports of all trees by name, the catalog first with an empty name.
fn reports(engine: &Engine) -> Result<Vec<(String, TreeReport)>> {
    let Some(catalog) = engine.catalog() else { return Ok(Vec::new()) };
    let mut reports = vec![(String::new(), catalog.check()?)];
    for (name, anchor) in engine.catalog_entries()? {
        let report = engine.open_tree(anchor)?.check()?;
        reports.push((name, report));
    }
    Ok(reports)
}

pub(crate) fn stats(engine: &Engine) -> Result<Stats> {
    let tree = |(name, report): (String, TreeReport)| TreeStats {
        name,
        entries: report.entries,
        depth: report.nodes_by_level.len() as u32,
        nodes_by_level: report.nodes_by_level,
        fill: report.fill,
        key_bytes: report.key_bytes,
        value_bytes: report.value_bytes,
    };
    let reports = reports(engine)?;
    if let Some(damage) = reports.iter().flat_map(|(_, report)| &report.damages).next() {
        let page = engine.medium().page(damage.page)?;
        let offset = page.file_offset() + damage.offset_bytes_in_page as u64;
        return Err(Error::corrupt(offset, damage.what.clone()));
    }
    let pages = engine.pool().stats()?;
    let count = |kind, pages| PageCount { kind, pages: u64::from(pages) };
    let file = engine.medium().stats();
    let geometry = engine.medium().geometry();
    Ok(Stats {
        trees: reports.into_iter().skip(1).map(tree).collect(),
        pages: vec![
            count("node", pages.nodes),
            count("record", pages.records),
            count("extent", pages.extents),
            count("map", pages.maps),
            count("anchor", pages.anchors),
        ],
        page_bytes: geometry.page_bytes() as u32,
        node_bytes: 16 * geometry.slots() as u32,
        file_bytes: file.data_bytes,
        journal_bytes: file.journal_replay_bytes,
        epoch: file.epoch,
        durable_epoch: file.durable_epoch,
        open_generation: file.open_generation,
        uuid: file.uuid,
    })
}

pub(crate) fn check(engine: &Engine) -> Result<Vec<Damage>> {
    let at = |page, offset_in_page: usize, what: String| {
        let page_offset = engine.medium().page(page).map_or(0, |page| page.file_offset());
        Damage { file: "data", offset: page_offset + offset_in_page as u64, what }
    };
    let mut damages: Vec<Damage> = engine
        .pool()
        .check()
        .into_iter()
        .map(|d| at(d.page, d.offset_bytes_in_page, d.what))
        .collect();
    let reports = match reports(engine) {
        Ok(reports) => reports,
        Err(error) => return with_error(damages, error),
    };
    for (_, report) in &reports {
        damages.extend(
            report.damages.iter().map(|d| at(d.page, d.offset_bytes_in_page, d.what.clone())),
        );
    }
    if damages.is_empty() && !reports.is_empty() {
        let reports: Vec<TreeReport> = reports.into_iter().map(|(_, report)| report).collect();
        match leaks(engine.pool(), &reports) {
            Ok(leaks) => {
                let anchors = leaks.anchors.iter().map(|no| (*no, "an anchor of no tree"));
                let nodes = leaks.nodes.iter().map(|no| (*no, "a node that no tree reaches"));
                let records =
                    leaks.records.iter().map(|r| (r.page(), "a record that no tree names"));
                let lost = anchors.chain(nodes).chain(records);
                damages.extend(lost.map(|(no, what)| at(no, 0, what.to_owned())));
            }
            Err(error) => return with_error(damages, error),
        }
    }
    damages.sort_by(|a, b| (a.offset, &a.what).cmp(&(b.offset, &b.what)));
    damages.dedup();
    Ok(damages)
}

/// Damage that stopped the walk is damage; any other error is an error.
fn with_error(mut damages: Vec<Damage>, error: Error) -> Result<Vec<Damage>> {
    match error {
        Error::Corrupt { file, offset, what } => {
            damages.push(Damage { file, offset, what });
            Ok(damages)
        }
        error => Err(error),
    }
}
