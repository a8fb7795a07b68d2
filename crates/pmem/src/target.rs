//! Which processors it is for: those with pointers of 64 bits.
//!
//! A pool reserves address space for all pages that it may ever have, 256 GiB of it unless the program says
//! otherwise, and numbers of bytes in files and in memory are turned into each other without a loss. On a
//! processor of 32 bits neither is so, and nobody tests it there: such a build is refused.

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "everleaf needs a target whose pointers have 64 bits: a pool reserves more addresses than others have"
);
