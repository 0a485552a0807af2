//! Provides what tests of other crates need and what takes `unsafe`: a counting allocator and forked children.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;

use rustix::process::Pid;

/// The system's allocator for `#[global_allocator]`, which passes the size of each allocation in bytes to a function.
///
/// The function must not allocate.
#[derive(Debug)]
pub struct Counting(pub fn(usize));

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0(layout.size());
        // SAFETY: the caller promises what `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.0(size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs `run` in a forked child, which has one thread and a copy of this process's memory. The result of `run` is its
/// exit code. The child runs no destructors of the caller.
///
/// A lock that another thread holds stays locked in the child, so `run` must take no lock that other threads use.
///
/// # Errors
/// The system is out of processes.
pub fn in_a_child(run: impl FnOnce() -> u8) -> io::Result<Pid> {
    // SAFETY: the child only runs `run` and ends. The C library takes care of its own locks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let code = run();
            // SAFETY: the process ends here.
            unsafe { libc::_exit(code.into()) };
        }
        child => Pid::from_raw(child).ok_or_else(|| io::ErrorKind::Other.into()),
    }
}
