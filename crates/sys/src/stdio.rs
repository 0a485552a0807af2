//! Whether standard output was open when the program was started.
//!
//! Rust's runtime opens `/dev/null` in the place of a standard descriptor that is closed, so that no
//! file gets its number. What is then written to standard output is lost, and every write says that
//! all went well. So this looks before the runtime does: the loader calls the functions in
//! `.init_array` before `main` (System V ABI, Dynamic Linking, "Initialization and Termination
//! Functions"). Whether it is `/dev/null` would be the wrong question: who chose that wants it.

use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: the section holds pointers to functions that the loader calls once; this one is of their
// form and needs nothing of what is not set up yet: it makes one system call and one store.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: it only asks, and any number may be asked about.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Whether the program was started with its standard output closed, as by `>&-` in a shell.
pub fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}
