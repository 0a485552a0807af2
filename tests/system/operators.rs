//! Operators that flood the admin socket or stay silent: no program ends and no other operator
//! waits.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::Rosemary;
use cli::status::Report;
use control::operator::{OperatorReply, OperatorRequest};
use rosemary_tests::{in_a_lab, rosemary_binary};
use sys::channel::Channel;
use sys::packets::Packets;

const SOCKET: &str = "/run/rosemary/admin.sock";

/// More descriptors than the log service may have.
const HELD: usize = 400;

/// Number of queries of the flood, of each kind.
const QUESTIONS: usize = 6_000;

/// Ten times the duration of `rosemary status` on a busy machine, and shorter than the timeout of a
/// silent connection.
const SOON: Duration = Duration::from_secs(3);

fn connect() -> Option<Channel> {
    sys::named::connect_to(Path::new(SOCKET)).ok()
}

/// Returns name, pid and restarts of every program.
fn programs(report: &Report) -> Vec<(String, Option<u32>, u64)> {
    let kernel = &report.programs.kernel;
    let services = report.programs.services.iter();
    let services = services.map(|it| (it.name.clone(), it.pid, it.restarts));
    services.chain([("kernel".to_owned(), kernel.pid, kernel.restarts)]).collect()
}

/// Sends `question` as fast as the monitor answers; returns the descriptors of the first answers. A busy machine gets more
/// questions and time, until there are `least` of them.
fn flood(question: &OperatorRequest, least: usize) -> anyhow::Result<Vec<OwnedFd>> {
    let mut held = Vec::new();
    let mut operators: Vec<Channel> = (0..12).filter_map(|_| connect()).collect();
    ensure!(!operators.is_empty(), "no connection was accepted");
    let began = Instant::now();
    let is_short = |held: &Vec<OwnedFd>| held.len() < least && began.elapsed() < 2 * SOON;
    for number in 0.. {
        if number >= QUESTIONS && !is_short(&held) {
            break;
        }
        let place = number % operators.len();
        let operator = &mut operators[place];
        if operator.send(question, &[]).is_err()
            && let Some(next) = connect()
        {
            *operator = next;
        }
        while let Ok((_, fds)) = operator.receive::<OperatorReply>() {
            let room = HELD.saturating_sub(held.len());
            held.extend(fds.into_iter().take(room));
        }
    }
    Ok(held)
}

/// Connects in a loop and keeps the last `kept` connections; returns the number of connections.
fn connect_in_a_loop(kept: usize, is_over: &AtomicBool) -> u64 {
    let (mut last, mut made) = (VecDeque::new(), 0);
    while !is_over.load(Ordering::Relaxed) {
        if let Some(connection) = connect() {
            last.push_back(connection);
            last.drain(..last.len().saturating_sub(kept));
            made += 1;
        }
    }
    made
}

#[test]
fn flooding_operators_delay_nobody() {
    in_a_lab(|lab| {
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let before = rosemary.wait_for("the log serves", SOON * 3, |status| {
            status.programs.services.iter().any(|it| it.pid.is_some()).then(|| status.clone())
        })?;
        let logs = flood(&OperatorRequest::Log, 101)?;
        println!("{} connections to the log were made and kept", logs.len());
        ensure!(logs.len() > 100, "the flood was no flood");
        let kernels = flood(&OperatorRequest::Kernel, 0)?;
        for socket in logs {
            let socket = Packets::from_fd(socket);
            for packet in [&b"short"[..], &[7; 9], &vec![0; 30_000]] {
                let _ = socket.send(packet); // most are already closed
            }
        }
        drop(kernels);
        let is_over = AtomicBool::new(false);
        let (report, took) = std::thread::scope(|scope| {
            let floods = [0, 64].map(|kept| {
                scope.spawn({
                    let is_over = &is_over;
                    move || connect_in_a_loop(kept, is_over)
                })
            });
            std::thread::sleep(Duration::from_millis(300));
            let (asked, report) = (Instant::now(), rosemary.status());
            let took = asked.elapsed();
            is_over.store(true, Ordering::Relaxed);
            let made = floods.map(std::thread::ScopedJoinHandle::join);
            println!("{made:?} connected meanwhile, status took {took:?}");
            (report, took)
        });
        let report = report?.context("it answers beside a flood of connections")?;
        assert_eq!(programs(&before), programs(&report));
        ensure!(took < 2 * SOON, "{took:?}");
        rosemary
            .wait_for_log(&["delayed connections to the admin socket", "connections="], SOON)?;
        let _silent: Vec<Channel> = (0..200).filter_map(|_| connect()).collect();
        let asked = Instant::now();
        let after = rosemary.status()?.context("it answers")?;
        let took = asked.elapsed();
        println!("beside silent connections, status took {took:?}");
        assert_eq!(programs(&before), programs(&after));
        ensure!(took < SOON, "{took:?}");
        let program = rosemary_binary().display().to_string();
        lab.run(&program, &["logs"])?;
        Ok(())
    });
}
