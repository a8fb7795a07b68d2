//! How an exploration goes about its work: which images are built, and how deep crashes in recovery
//! go.

use crate::images::Persistency;
use crate::picks::{ImagePicks, product};

/// Settings of an exploration.
///
/// ```
/// use everleaf_crash_check::{Explorer, Trace};
/// use everleaf_pmem::{Geometry, Medium, Sim};
/// let sim = std::sync::Arc::new(Sim::new(Geometry::new(4).unwrap(), 1)?);
/// let trace = Trace::new(&sim);
/// trace.op(0, || {
///     let page = sim.page(0).unwrap();
///     sim.store(page.body(0), 7);
///     sim.flush(page, page.line_of(0)); // but no fence: acknowledged too early
/// });
/// let failure = Explorer::new()
///     .check(&trace.finish(), |sim, crash| {
///         let found = sim.page(0).unwrap().body(0).load();
///         let lost = crash.responded() == [0] && found != 7;
///         if lost { Err(format!("found {found}")) } else { Ok(()) }
///     })
///     .unwrap_err();
/// assert!(failure.to_string().contains("found 0"));
/// # Ok::<(), everleaf_pmem::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Explorer {
    pub(crate) mode: Persistency,
    pub(crate) seed: u64,
    pub(crate) samples: usize,
    pub(crate) exhaustive: usize,
    pub(crate) page_exhaustive: usize,
    pub(crate) depth: usize,
    pub(crate) deep_samples: usize,
}

impl Default for Explorer {
    fn default() -> Self {
        let (samples, exhaustive) = (4096, 1 << 16);
        let (depth, deep_samples, page_exhaustive) = (3, 8, 0);
        Self {
            mode: Persistency::X86,
            seed: 0,
            samples,
            exhaustive,
            page_exhaustive,
            depth,
            deep_samples,
        }
    }
}

impl Explorer {
    /// x86, seed 0, crash points of up to 2^16 images in full and 4096 samples of larger ones,
    /// depth 3.
    pub fn new() -> Self {
        Self::default()
    }
    /// The stores that survive a power cut besides those that were flushed and fenced.
    pub fn mode(mut self, mode: Persistency) -> Self {
        self.mode = mode;
        self
    }
    /// The seed of sampling.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
    /// How many images are built of a crash point that has too many to build all of them.
    pub fn samples(mut self, samples: usize) -> Self {
        self.samples = samples;
        self
    }
    /// The largest number of images that a crash point may have for all of them to be built.
    pub fn exhaustive(mut self, images: usize) -> Self {
        self.exhaustive = images;
        self
    }
    /// At crash points with too many images to build all of them: the largest number of images of one
    /// page that are all built. They are built twice, once with the lines of all other pages at their
    /// floors and once with everything that was stored to them; samples come in addition. The default,
    /// 0, builds none. For structures that recover each page by itself this is nearly as good as all.
    pub fn page_exhaustive(mut self, images: usize) -> Self {
        self.page_exhaustive = images;
        self
    }
    /// How many crashes may follow each other. 1 crashes the workload only. 2 also crashes each recovery
    /// at each of its crash points. 3 and more crash those recoveries, too, with as many images of each
    /// point as `deep_samples` says.
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }
    /// How many images are built of each crash point from depth 3 on.
    pub fn deep_samples(mut self, samples: usize) -> Self {
        self.deep_samples = samples;
        self
    }

    /// How a crash point's images are walked, and whether that is all of them. `pages` are the pages
    /// of the lines, in order.
    pub(crate) fn picks(
        &self,
        depth: usize,
        sizes: &[usize],
        pages: &[u32],
        seed: u64,
    ) -> (ImagePicks, bool) {
        let deep = depth > 2;
        let limit = if deep { self.deep_samples } else { self.exhaustive };
        if product(sizes, limit).is_some() {
            return (ImagePicks::all(), true);
        }
        let samples = if deep { self.deep_samples } else { self.samples };
        let sampled = ImagePicks::sampled(sizes, samples, seed);
        if deep || self.page_exhaustive == 0 {
            return (sampled, false);
        }
        let (mut ranges, mut start) = (Vec::new(), 0);
        for page in pages.chunk_by(|a, b| a == b) {
            let lines = start..start + page.len();
            start = lines.end;
            if product(&sizes[lines.clone()], self.page_exhaustive).is_some() {
                ranges.push(lines);
            }
        }
        (ImagePicks::by_page(ranges, sampled), false)
    }
}
