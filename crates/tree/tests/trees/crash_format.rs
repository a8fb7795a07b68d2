//! Making a pool on strict media, and crashes meanwhile.

use std::sync::Arc;

use everleaf_crash_check::{Explorer, SharedMedium, Trace};
use everleaf_pmem::{Geometry, Sim};
use everleaf_pool::{Hooks, Pool};

/// Making a pool, cut off at every store and made again: what is there is never taken for a pool of
/// somebody's, and never for none once a tree could have had a root.
#[test]
fn a_pool_whose_making_was_cut_off_is_made_again() {
    let geometry = Geometry::new(4).unwrap();
    let sim = Arc::new(Sim::new(geometry, 8).unwrap());
    let trace = Trace::new(&sim);
    trace.op(0, || Pool::format(SharedMedium::new(&sim), Hooks::default()).map(drop).unwrap());
    let (mut unmade, mut made) = (0, 0);
    let stats = Explorer::new()
        .explore(
            &trace.finish(),
            |sim| {
                let m = SharedMedium::new(sim);
                let is_unmade = Pool::is_unmade(&m).map_err(|e| e.to_string())?;
                let open = if is_unmade { Pool::format } else { Pool::open };
                let pool = open(m, Hooks::default()).map_err(|e| e.to_string())?;
                Ok((is_unmade, pool.check()))
            },
            |(is_unmade, damages), _, crash| {
                if is_unmade {
                    unmade += 1
                } else {
                    made += 1
                }
                let lost = is_unmade && !crash.responded().is_empty();
                if lost || !damages.is_empty() { Err(format!("{damages:?}")) } else { Ok(()) }
            },
        )
        .unwrap();
    println!("{stats}: {unmade} unmade, {made} made");
    assert!(unmade > 10 && made > 0);
}
