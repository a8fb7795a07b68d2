//! Walks the whole pool: counts for `count`, damage for `check`.

use everleaf_pmem::{Error, fallible};

use crate::Result;
use crate::engine::Engine;
use crate::stats::{Counts, Damage, PageCount, TreeStats};

pub(crate) fn count(engine: &Engine) -> Result<Counts> {
    // The catalog comes first, and is no tree of the user's.
    let (mut trees, mut is_catalog) = (Vec::new(), true);
    engine.reports(|name, report| {
        if let Some(damage) = report.damages.first() {
            let offset = engine.page_offset(damage.page) + damage.offset_bytes_in_page as u64;
            return Err(Error::corrupt(offset, damage.what.clone()));
        }
        debug_assert_eq!(name.is_empty(), is_catalog, "the catalog is first");
        if std::mem::take(&mut is_catalog) {
            return Ok(());
        }
        let tree = TreeStats {
            name: name.to_owned(),
            entries: report.entries,
            depth: report.nodes_by_level.len() as u32,
            nodes_by_level: report.nodes_by_level,
            fill: report.fill,
            key_bytes: report.key_bytes,
            value_bytes: report.value_bytes,
        };
        fallible::push(&mut trees, tree, "the figures of all trees")
    })?;
    let pages = engine.page_counts()?;
    let count = |kind, pages| PageCount { kind, pages: u64::from(pages) };
    Ok(Counts {
        trees,
        pages: vec![
            count("node", pages.nodes),
            count("record", pages.records),
            count("extent", pages.extents),
            count("map", pages.maps),
            count("anchor", pages.anchors),
        ],
    })
}

pub(crate) fn check(engine: &Engine) -> Result<Vec<Damage>> {
    let (found, stopped) = engine.check()?;
    let mut damages = fallible::list(found.len() + 1, "the damages of a pool")?;
    damages.extend(found.into_iter().map(|d| {
        let offset = engine.page_offset(d.page) + d.offset_bytes_in_page as u64;
        Damage { file: "data", offset, what: d.what }
    }));
    if let Some(Error::Corrupt { file, offset, what }) = stopped {
        damages.push(Damage { file, offset, what });
    }
    damages.sort_unstable_by(|a, b| (a.offset, &a.what).cmp(&(b.offset, &b.what)));
    damages.dedup();
    Ok(damages)
}
