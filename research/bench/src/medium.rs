//! Media by name.
//!
//! | name | medium |
//! |---|---|
//! | `dram` | memory; a flush and a fence are nothing |
//! | `latency:F` or `latency:F:G` | memory; F ns for each flushed line, G ns for each fence, no instruction |
//! | `counted` | memory that counts stores, flushed lines and fences |
//! | `dax`, `dax:I`, `dax:I:F` or `dax:I:F:G` | lines are flushed by instruction I (`best`, `clwb`, `clflushopt`, `clflush`, `none`) with F ns more for each line, G ns more for each fence |
//! | `adr` | as `dax:clwb`: caches are lost with the power |
//! | `eadr` | as `dax:none`: caches survive, so nothing is flushed and only fences remain. So it is with CXL memory and Global Persistent Flush |
//! | `cxl` or `cxl:F` | as `dax:clwb:F`, F is 400 if left out: CXL memory without Global Persistent Flush. A model: F is what a line takes longer than here, and no device was measured for it |
//! | `floor:F` | as `dax:clflush`, with a fence before each line, which takes F ns at least (FAST+FAIR's released code) |
//! | `file` or `file:MS` | an ordinary file, epochs of MS milliseconds |

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use everleaf_pmem::Flush;
use serde::Deserialize;

use crate::wear::cache::CacheShape;

/// A medium that an experiment names.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum MediumName {
    /// Memory.
    Dram,
    /// Memory with a delay for each flushed line and for each fence.
    Latency(Delays),
    /// Memory that counts.
    Counted,
    /// Memory that counts what reaches it through a cache of this shape. It has no name: the kinds of
    /// measurement that need it have the shape among their parameters.
    Cached(CacheShape),
    /// Persistent memory, or a file that stands in for it. `None`: the best instruction there is.
    Dax(Option<Flush>, Delays),
    /// The same by clflush, each line of which takes so long at least, behind a fence of its own.
    Floor(Duration),
    /// A file, with the length of an epoch.
    File(Duration),
}

impl MediumName {
    /// The instruction that it needs and this processor lacks.
    pub fn lacks(self) -> Option<String> {
        let flush = match self {
            Self::Dax(flush, _) => flush?,
            Self::Floor(_) => Flush::Clflush,
            _ => return None,
        };
        let is_there = Flush::available().contains(&flush);
        (!is_there).then(|| format!("this processor has no {flush}"))
    }
}

/// The latency that is added to a flushed line of CXL memory, if an experiment does not say.
const CXL: Duration = Duration::from_nanos(400);

/// Delays that are added by spinning.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Delays {
    /// For each flushed line.
    pub flush: Duration,
    /// For each fence.
    pub fence: Duration,
}

impl TryFrom<String> for MediumName {
    type Error = anyhow::Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

fn ns(text: &str) -> Result<Duration> {
    let ns = text.parse().with_context(|| format!("{text:?} is no number of nanoseconds"))?;
    Ok(Duration::from_nanos(ns))
}

fn delays(parts: &[&str]) -> Result<Delays> {
    Ok(match parts {
        [] => Delays::default(),
        [flush] => Delays { flush: ns(flush)?, ..Default::default() },
        [flush, fence] => Delays { flush: ns(flush)?, fence: ns(fence)? },
        _ => bail!("at most two delays: for a flushed line and for a fence"),
    })
}

impl FromStr for MediumName {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        Ok(match parts[..] {
            ["dram"] => Self::Dram,
            ["counted"] => Self::Counted,
            ["latency", ref rest @ ..] if !rest.is_empty() => Self::Latency(delays(rest)?),
            ["dax", ref rest @ ..] => {
                let flush = match rest.first().copied().unwrap_or("best") {
                    "best" => None,
                    "clwb" => Some(Flush::Clwb),
                    "clflushopt" => Some(Flush::Clflushopt),
                    "clflush" => Some(Flush::Clflush),
                    "none" => Some(Flush::FenceOnly),
                    other => bail!("no instruction is called {other:?}"),
                };
                Self::Dax(flush, delays(rest.get(1..).unwrap_or_default())?)
            }
            ["adr"] => Self::Dax(Some(Flush::Clwb), Delays::default()),
            ["eadr"] => Self::Dax(Some(Flush::FenceOnly), Delays::default()),
            ["cxl", ref rest @ ..] if rest.len() < 2 => {
                let flush = rest.first().map_or(Ok(CXL), |text| ns(text))?;
                Self::Dax(Some(Flush::Clwb), Delays { flush, ..Default::default() })
            }
            ["floor", floor] => Self::Floor(ns(floor)?),
            ["file"] => Self::File(Duration::from_millis(10)),
            ["file", ms] => Self::File(Duration::from_millis(ms.parse().context("milliseconds")?)),
            _ => bail!(
                "no medium is called {text:?}: dram, latency:F:G, counted, dax:I:F:G, adr, \
                 eadr, cxl:F, floor:F, file:MS"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_medium_adds() {
        let ns = Duration::from_nanos;
        let parse = |text: &str| text.parse::<MediumName>();
        assert_eq!(parse("dram").expect("a medium"), MediumName::Dram);
        let both = Delays { flush: ns(300), fence: ns(100) };
        assert_eq!(parse("latency:300:100").expect("a medium"), MediumName::Latency(both));
        let clwb = MediumName::Dax(Some(Flush::Clwb), Delays { flush: ns(300), fence: ns(0) });
        assert_eq!(parse("dax:clwb:300").expect("a medium"), clwb);
        assert_eq!(parse("dax").expect("a medium"), MediumName::Dax(None, Delays::default()));
        assert_eq!(parse("file:5").expect("a medium"), MediumName::File(Duration::from_millis(5)));
        assert_eq!(parse("floor:300").expect("a medium"), MediumName::Floor(ns(300)));
        // The domains of persistence are what the instructions make of them.
        assert_eq!(parse("adr").expect("a medium"), parse("dax:clwb").expect("a medium"));
        assert_eq!(parse("eadr").expect("a medium"), parse("dax:none").expect("a medium"));
        assert_eq!(parse("cxl:70").expect("a medium"), parse("dax:clwb:70").expect("a medium"));
        assert_eq!(parse("cxl").expect("a medium"), parse("cxl:400").expect("a medium"));
        let wrongs = ["", "latency", "latency:x", "latency:1:2:3", "dax:clean", "file:", "disk"];
        for wrong in wrongs.into_iter().chain(["floor", "floor:1:2", "cxl:x", "cxl:1:2", "eadr:1"])
        {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
