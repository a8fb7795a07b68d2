//! A process that is a fork of the test's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Runs `child` in a fork of this process and waits for it. Panics if it panics, dies, or is not back
/// within 30 s.
pub fn in_a_fork(child: impl FnOnce()) {
    // SAFETY: the child runs `child` and ends without running anything else of the parent's. The
    // allocator's locks are free in it, for the C library sees to that; other locks of threads that it
    // does not have are what is tested.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        let failed = catch_unwind(AssertUnwindSafe(child)).is_err();
        // SAFETY: ends the process at once, without destructors of the parent's threads.
        unsafe { libc::_exit(i32::from(failed)) }
    }
    let end = Instant::now() + Duration::from_secs(300);
    let mut status = 0;
    loop {
        // SAFETY: the pid is that of a child which nobody else waits for.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
            0 if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
            0 => {
                // SAFETY: as above.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                panic!("the child hangs");
            }
            _ => break,
        }
    }
    assert_eq!(status, 0, "the child has failed or died");
}
