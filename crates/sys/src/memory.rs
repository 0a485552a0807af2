//! Returns unused memory of the allocator to the system.

/// Returns freed memory to the system. The GNU C library keeps the memory of small freed blocks otherwise
/// (`malloc_trim(3)`). With other C libraries this does nothing.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number and no pointers, and locks the allocator.
    let _ = unsafe { libc::malloc_trim(0) };
}
