//! Whether the platform says that its processor caches survive a power failure (eADR).

use std::fs;
use std::path::Path;

/// Where Linux lists the regions of persistent memory.
pub(super) const DEVICES: &str = "/sys/bus/nd/devices";

/// Whether there is a region and each one reports the caches as part of its persistence domain. A
/// device that cannot be read counts as a no: flushing too much loses nothing.
pub(super) fn reported(devices: &Path) -> bool {
    let Ok(entries) = fs::read_dir(devices) else { return false };
    let mut regions = 0;
    for entry in entries {
        let Ok(entry) = entry else { return false };
        if !is_region(&entry.file_name().to_string_lossy()) {
            continue;
        }
        regions += 1;
        let domain = fs::read_to_string(entry.path().join("persistence_domain"));
        if !domain.is_ok_and(|domain| domain.trim() == "cpu_cache") {
            return false;
        }
    }
    regions > 0
}

fn is_region(name: &str) -> bool {
    name.strip_prefix("region")
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_region_must_report_it() {
        let dir = tempfile::tempdir().expect("dir");
        let set = |name: &str, domain: &[u8]| {
            let region = dir.path().join(name);
            fs::create_dir_all(&region).expect("dir");
            fs::write(region.join("persistence_domain"), domain).expect("file");
        };
        assert!(!reported(&dir.path().join("missing")), "no such bus");
        assert!(!reported(dir.path()), "no region");
        set("namespace0.0", b"memory_controller\n");
        set("regions", b"memory_controller\n");
        set("region0", b"cpu_cache\n");
        assert!(reported(dir.path()));
        set("region12", b"cpu_cache");
        assert!(reported(dir.path()));
        for other in [&b"memory_controller\n"[..], b"", b"cpu_cache_not", b"\xff\xfe"] {
            set("region1", other);
            assert!(!reported(dir.path()), "{other:?}");
        }
        fs::remove_file(dir.path().join("region1/persistence_domain")).expect("removed");
        assert!(!reported(dir.path()), "a region that says nothing");
    }
}
