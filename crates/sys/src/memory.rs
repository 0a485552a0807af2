//! Memory that the allocator keeps.

/// Gives memory that was freed back to the system, as far as the allocator can: the GNU C library
/// keeps what small blocks have freed (`malloc_trim(3)`). Elsewhere it does nothing.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number and no pointers, and locks the allocator itself.
    let _ = unsafe { libc::malloc_trim(0) };
}
