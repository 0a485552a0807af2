//! Shared parts of the system tests: a lab and a hard timeout for each, and no silent skips.
//!
//! A system test starts real processes in its own [`Lab`], so tests run in parallel and leave
//! nothing behind. A test that cannot run on this machine (not root, no Open vSwitch) prints
//! `SKIPPED: why`. It fails instead if the environment variable `ROSEMARY_REQUIRE_ALL` is `1`, as
//! in `make test`.

#![forbid(unsafe_code)]

/// Makes a module of tests that run a function over each version of OpenFlow: 1.0, 1.3 and 1.5 in `make test`, the others in
/// `make soak`.
#[macro_export]
macro_rules! over_versions {
    ($name:ident, |$of:ident| $run:expr) => {
        mod $name {
            use super::*;

            fn run($of: cli::lab::Of) {
                $run;
            }

            #[test]
            fn over_1_0() {
                run(cli::lab::Of::V1_0);
            }

            #[test]
            #[ignore = "a version of `make soak`"]
            fn over_1_2() {
                run(cli::lab::Of::V1_2);
            }

            #[test]
            fn over_1_3() {
                run(cli::lab::Of::V1_3);
            }

            #[test]
            #[ignore = "a version of `make soak`"]
            fn over_1_4() {
                run(cli::lab::Of::V1_4);
            }

            #[test]
            fn over_1_5() {
                run(cli::lab::Of::V1_5);
            }
        }
    };
}

pub mod apps;
pub mod broadcast;
pub mod capture;
pub mod chaos;
pub mod controller;
pub mod developer;
pub mod emulated;
pub mod experiment;
pub mod fake;
pub mod flow_table;
pub mod greeter;
pub mod http;
pub mod judge;
pub mod mark;
pub mod mininet;
pub mod net;
pub mod os_ken;
pub mod pki;
pub mod random;
pub mod ryu;
pub mod schema;
pub mod sockets;
pub mod stream;
pub mod traces;
pub mod verdicts;
pub mod vtep;

use std::env;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use capture::Capture;
use cli::lab::{Interrupt, Lab, LabError};
use rustix::process::{Pid, Signal, kill_process};

/// Default time limit of a system test.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Runs a system test in its own lab.
///
/// # Panics
/// If the test fails, exceeds [`LIMIT`], or is skipped although all tests must run.
pub fn in_a_lab(test: impl FnOnce(&Lab) -> anyhow::Result<()> + Send + 'static) {
    in_a_lab_for(LIMIT, test);
}

/// Like [`in_a_lab`], with another time limit.
///
/// # Panics
/// Like [`in_a_lab`], with `limit`.
pub fn in_a_lab_for(
    limit: Duration,
    test: impl FnOnce(&Lab) -> anyhow::Result<()> + Send + 'static,
) {
    run(limit, |lab| captured(lab, test));
}

/// Like [`in_a_lab`], for tests with a full socket: tshark loses a stream whose window was closed.
///
/// # Panics
/// Like [`in_a_lab`].
pub fn in_a_lab_without_capture(test: impl FnOnce(&Lab) -> anyhow::Result<()> + Send + 'static) {
    run(LIMIT, test);
}

/// Like [`in_a_lab_without_capture`], with another time limit.
///
/// # Panics
/// Like [`in_a_lab_for`].
pub fn in_a_lab_without_capture_for(
    limit: Duration,
    test: impl FnOnce(&Lab) -> anyhow::Result<()> + Send + 'static,
) {
    run(limit, test);
}

fn run(limit: Duration, test: impl FnOnce(&Lab) -> anyhow::Result<()> + Send + 'static) {
    let interrupt = Interrupt::default();
    let inner = interrupt.clone();
    let (sender, receiver) = mpsc::channel();
    // A separate thread: it never leaves the lab's namespaces, and the lab ends with it.
    let thread = thread::spawn(move || {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| match Lab::enter_until(inner) {
            Ok(lab) => test(&lab),
            Err(error) => Err(error.into()),
        }));
        let _ = sender.send(outcome); // fails only after the timeout, when the receiver is gone
    });
    let outcome = receiver.recv_timeout(limit);
    if matches!(outcome, Err(RecvTimeoutError::Timeout)) {
        interrupt.store(true, Ordering::Relaxed);
        panic!("not finished after {limit:?}");
    }
    let _ = thread.join(); // every process of the lab has ended when this returns
    match outcome {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => match error.downcast_ref::<LabError>() {
            Some(reason) if reason.is_about_the_machine() => skip(&error),
            _ => panic!("{error:#}"),
        },
        Ok(Err(panicked)) => panic::resume_unwind(panicked),
        Err(_) => unreachable!("the thread sends before it ends, and a timeout is above"),
    }
}

/// Runs a test while the controller's messages are captured, then checks the capture.
fn captured(lab: &Lab, test: impl FnOnce(&Lab) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let capture = Capture::start(lab, capture::PORT)?;
    test(lab)?;
    capture.check(lab)
}

/// Reports that a test cannot run here, or cannot check everything.
///
/// # Panics
/// If all tests must run.
pub fn skip(why: &anyhow::Error) {
    // Not through the test's captured output: a skipped test that passes would hide it.
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("SKIPPED: {name}: {why:#}\n").as_bytes(),
    );
    assert!(
        env::var_os("ROSEMARY_REQUIRE_ALL").is_none_or(|all| all != "1"),
        "cannot run: {why:#}"
    );
}

/// Returns the path of the `rosemary` binary built with this test.
///
/// # Panics
/// If it was not built: `cargo test` builds the libraries of other packages but not their programs.
pub fn rosemary_binary() -> PathBuf {
    let test = env::current_exe().expect("/proc is mounted");
    let profile_dir = test.ancestors().nth(2).expect("a test is in target/PROFILE/deps");
    let binary = profile_dir.join("rosemary");
    assert!(binary.is_file(), "{} is missing; type: make build", binary.display());
    binary
}

/// Mounts the directory of our programs where every user may enter, and returns its path. A checkout may be below a directory that
/// only root may enter. Must be called in a lab, which has mounts of its own; no lab and no demo covers `/mnt`.
///
/// # Errors
/// The system refuses the mount.
///
/// # Panics
/// Like [`rosemary_binary`].
pub fn programs_for_all() -> anyhow::Result<PathBuf> {
    let place = PathBuf::from("/mnt");
    let binary = rosemary_binary();
    rustix::mount::mount_bind(binary.parent().unwrap_or(&place), &place)?;
    Ok(place)
}

/// Sends `SIGKILL`.
///
/// # Errors
/// No such process exists.
pub fn kill(pid: u32) -> anyhow::Result<()> {
    let pid = Pid::from_raw(pid.try_into()?).context("a process has a number")?;
    Ok(kill_process(pid, Signal::KILL)?)
}
