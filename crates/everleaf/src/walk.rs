//! Walks the whole pool: counts for `stat`, damage for `check`.

use everleaf_pmem::{Error, room};
use everleaf_tree::{Leaks, TreeReport};

use crate::Result;
use crate::engine::Engine;
use crate::stats::{Damage, PageCount, Stats, TreeStats};

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
    let reports = engine.reports()?;
    if let Some(damage) = reports.iter().flat_map(|(_, report)| &report.damages).next() {
        let offset = engine.page_offset(damage.page) + damage.offset_bytes_in_page as u64;
        return Err(Error::corrupt(offset, damage.what.clone()));
    }
    let mut trees = room::list(reports.len(), "the figures of all trees")?;
    trees.extend(reports.into_iter().skip(1).map(tree));
    let pages = engine.page_counts()?;
    let count = |kind, pages| PageCount { kind, pages: u64::from(pages) };
    let (medium, geometry) = (engine.medium_stats(), engine.geometry());
    let (epoch, durable_epoch) = engine.epochs();
    Ok(Stats {
        trees,
        pages: vec![
            count("node", pages.nodes),
            count("record", pages.records),
            count("extent", pages.extents),
            count("map", pages.maps),
            count("anchor", pages.anchors),
        ],
        page_bytes: geometry.page_bytes() as u32,
        node_bytes: 16 * geometry.slots() as u32,
        file_bytes: medium.data_bytes,
        journal_bytes: medium.journal_bytes,
        epoch,
        durable_epoch,
        open_generation: medium.open_generation,
        uuid: medium.uuid,
    })
}

pub(crate) fn check(engine: &Engine) -> Result<Vec<Damage>> {
    let at = |page, offset_in_page: usize, what: String| {
        let offset = engine.page_offset(page) + offset_in_page as u64;
        Damage { file: "data", offset, what }
    };
    let mut damages: Vec<Damage> = engine
        .pool_damages()?
        .into_iter()
        .map(|d| at(d.page, d.offset_bytes_in_page, d.what))
        .collect();
    let reports = match engine.reports() {
        Ok(reports) => reports,
        Err(error) => return with_error(damages, error),
    };
    for (_, report) in &reports {
        damages.extend(
            report.damages.iter().map(|d| at(d.page, d.offset_bytes_in_page, d.what.clone())),
        );
    }
    if damages.is_empty() && !reports.is_empty() {
        let mut alone = room::list(reports.len(), "the reports of all trees")?;
        alone.extend(reports.into_iter().map(|(_, report): (String, TreeReport)| report));
        let reports = alone;
        // What a crash has leaked is none, until an open for writing has looked for it.
        let leaks =
            if engine.is_recovered() { engine.leaks(&reports) } else { Ok(Leaks::default()) };
        let compared = leaks.and_then(|leaks| {
            let anchors = leaks.anchors.iter().map(|no| (*no, "an anchor of no tree"));
            let nodes = leaks.nodes.iter().map(|no| (*no, "a node that no tree reaches"));
            let records = leaks.records.iter().map(|r| (r.page(), "a record that no tree names"));
            let logs = leaks.logs.iter().map(|no| (*no, "a log page of no tree"));
            let lost = anchors.chain(nodes).chain(records).chain(logs);
            damages.extend(lost.map(|(no, what)| at(no, 0, what.to_owned())));
            engine.misnamed(&reports)
        });
        match compared {
            Ok(misnamed) => damages
                .extend(misnamed.into_iter().map(|d| at(d.page, d.offset_bytes_in_page, d.what))),
            Err(error) => return with_error(damages, error),
        }
    }
    damages.sort_unstable_by(|a, b| (a.offset, &a.what).cmp(&(b.offset, &b.what)));
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
