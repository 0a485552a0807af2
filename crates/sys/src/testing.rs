//! What tests of other crates need that cannot be had without `unsafe`: an allocator that counts, and a child that
//! goes on in this program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;

use rustix::process::Pid;

/// The system's allocator, which first says the size of each allocation, in bytes. What it says it to must not
/// allocate.
///
/// For `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting(pub fn(usize));

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0(layout.size());
        // SAFETY: the caller's promises are those that `System` asks for.
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

/// Runs `run` in a child, which has a copy of all that is here and one thread, and ends with what `run` returns as
/// its exit code. Nothing of the caller's is cleaned up in it.
///
/// A lock that another thread has is taken in the child for ever: `run` must take none that others use.
///
/// # Errors
/// The system has no room for a process.
pub fn in_a_child(run: impl FnOnce() -> u8) -> io::Result<Pid> {
    // SAFETY: the child runs `run` and ends. The C library sees to its own locks.
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
