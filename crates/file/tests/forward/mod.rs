//! Calls of a file system, or of a file, that a disk of a test passes on to the one below: `forward!(sim: exists rename)`
//! passes these two on to `self.sim`.

macro_rules! forward {
    ($below:ident: $($call:ident)*) => { $(forward!(@$call $below);)* };
    (@exists $below:ident) => {
        fn exists(&self, path: &std::path::Path) -> std::io::Result<bool> {
            self.$below.exists(path)
        }
    };
    (@rename $below:ident) => {
        fn rename(&self, from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
            self.$below.rename(from, to)
        }
    };
    (@rename_new $below:ident) => {
        fn rename_new(&self, from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
            self.$below.rename_new(from, to)
        }
    };
    (@remove $below:ident) => {
        fn remove(&self, path: &std::path::Path) -> std::io::Result<()> {
            self.$below.remove(path)
        }
    };
    (@sync_dir $below:ident) => {
        fn sync_dir(&self, path: &std::path::Path) -> std::io::Result<()> {
            self.$below.sync_dir(path)
        }
    };
    (@entropy $below:ident) => {
        fn entropy(&self) -> std::io::Result<[u8; 16]> {
            self.$below.entropy()
        }
    };
    (@read_at $below:ident) => {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
            self.$below.read_at(buf, offset)
        }
    };
    (@set_len $below:ident) => {
        fn set_len(&self, bytes: u64) -> std::io::Result<()> {
            self.$below.set_len(bytes)
        }
    };
    (@allocate $below:ident) => {
        fn allocate(&self, range: std::ops::Range<u64>) -> std::io::Result<()> {
            self.$below.allocate(range)
        }
    };
    (@len $below:ident) => {
        fn len(&self) -> std::io::Result<u64> {
            self.$below.len()
        }
    };
    (@sync_data $below:ident) => {
        fn sync_data(&self) -> std::io::Result<()> {
            self.$below.sync_data()
        }
    };
    (@drop_cached $below:ident) => {
        fn drop_cached(&self, range: std::ops::Range<u64>) -> std::io::Result<()> {
            self.$below.drop_cached(range)
        }
    };
    (@lock $below:ident) => {
        fn lock(&self, shared: bool) -> std::io::Result<bool> {
            self.$below.lock(shared)
        }
    };
    (@unlock $below:ident) => {
        fn unlock(&self) -> std::io::Result<()> {
            self.$below.unlock()
        }
    };
}
