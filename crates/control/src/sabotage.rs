//! Faults of Rosemary itself, so that `make chaos SABOTAGE=NAME` shows that its invariants can be broken.
//!
//! The cargo feature `sabotage` compiles them in, and the environment variable [`VARIABLE`] selects one. Without the
//! feature, which no installed program has, [`is`] is constant.

/// The environment variable that names the sabotage. The monitor passes it to the kernel.
pub const VARIABLE: &str = "ROSEMARY_SABOTAGE";

/// A way to break Rosemary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// The monitor does not restart a program that ended.
    NoRestart,
    /// The monitor reports another cause for each end of a program.
    WrongBlame,
    /// The monitor keeps descriptors of each program that ended.
    LeakFd,
    /// The kernel deletes all flows of a switch that connects.
    WipeFlows,
    /// The kernel lets packets pass a guard that does not run, although the guard fails closed.
    FailOpen,
}

impl Sabotage {
    /// Returns its name in [`VARIABLE`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoRestart => "no-restart",
            Self::WrongBlame => "wrong-blame",
            Self::LeakFd => "leak-fd",
            Self::WipeFlows => "wipe-flows",
            Self::FailOpen => "fail-open",
        }
    }
}

/// The value of [`VARIABLE`] when it was first needed.
#[cfg(feature = "sabotage")]
static SELECTED: std::sync::LazyLock<Option<std::ffi::OsString>> =
    std::sync::LazyLock::new(|| std::env::var_os(VARIABLE));

/// Reads the environment variable. The kernel calls this at its start, because its sandbox empties the environment.
#[cfg(feature = "sabotage")]
pub fn select() {
    std::sync::LazyLock::force(&SELECTED);
}

/// Does nothing: this program was built without sabotage.
#[cfg(not(feature = "sabotage"))]
pub const fn select() {}

/// Returns whether Rosemary is to break in this way.
#[cfg(feature = "sabotage")]
pub fn is(sabotage: Sabotage) -> bool {
    SELECTED.as_ref().is_some_and(|name| name == sabotage.name())
}

/// Returns `false`: this program was built without sabotage.
#[cfg(not(feature = "sabotage"))]
pub const fn is(_: Sabotage) -> bool {
    false
}
