//! Returns unused memory of the allocator to the system, and counts the memory that a thread touches.

use std::mem::MaybeUninit;

/// The bytes of memory that this thread has touched for the first time: its page faults, getrusage(2). A huge page counts as
/// one page. Returns 0 if the system does not count them.
pub fn touched_by_thread() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call writes the structure or fails, and all of its fields may be zero.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0;
    // SAFETY: as above.
    let usage = unsafe { usage.assume_init() };
    if failed {
        return 0;
    }
    let faults = u64::try_from(usage.ru_minflt).unwrap_or_default();
    faults.saturating_mul(rustix::param::page_size() as u64)
}

/// Returns freed memory to the system. The GNU C library keeps the memory of small freed blocks otherwise
/// (`malloc_trim(3)`). With other C libraries this does nothing.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number and no pointers, and locks the allocator.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_touch_of_memory_is_counted_once() {
        let before = touched_by_thread();
        let mut memory = vec![0_u8; 8 << 20];
        memory.iter_mut().step_by(512).for_each(|byte| *byte = 1);
        let touched = touched_by_thread() - before;
        memory.iter_mut().step_by(512).for_each(|byte| *byte = 2);
        let again = touched_by_thread() - before - touched;
        std::hint::black_box(&memory);
        assert!(touched > 0 && again < touched.max(1 << 20), "{touched} B, then {again} B");
    }
}
