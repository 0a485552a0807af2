//! Runs pings and parses their results.

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use super::{Lab, LabError, Running};

/// One answered echo request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reply {
    /// Number of the request, from 1.
    pub seq: u32,
    /// Time of arrival.
    pub at: SystemTime,
    /// Round-trip time.
    pub rtt: Duration,
}

/// Result of a series of pings.
#[derive(Debug, Clone, PartialEq)]
pub struct PingReport {
    /// Number of requests sent.
    pub sent: u32,
    /// Number of requests answered.
    pub received: u32,
    /// The replies in order of arrival, without duplicates.
    pub replies: Vec<Reply>,
}

impl PingReport {
    /// Returns the number of requests without a reply.
    pub fn lost(&self) -> u32 {
        self.sent.saturating_sub(self.received)
    }

    /// Returns the round-trip times in order of arrival.
    pub fn rtts(&self) -> Vec<Duration> {
        self.replies.iter().map(|reply| reply.rtt).collect()
    }

    /// Returns the median round-trip time; zero without replies.
    pub fn median_rtt(&self) -> Duration {
        let mut rtts = self.rtts();
        rtts.sort_unstable();
        rtts.get(rtts.len() / 2).copied().unwrap_or_default()
    }

    /// Returns the time from `since` to the first later reply; `None` if there was none.
    pub fn first_reply_after(&self, since: SystemTime) -> Option<Duration> {
        first_after(self.replies.iter().copied(), since)
    }

    /// Parses the output of iputils' `ping -D` for the first `count` requests.
    fn parse(output: &str, count: u32) -> Result<Self, LabError> {
        let nonsense = |reason: &str| LabError::Output {
            program: "ping",
            reason: reason.to_owned(),
            output: output.to_owned(),
        };
        let counts_in = |reply: &Reply| reply.seq <= count;
        let replies: Vec<Reply> = output.lines().filter_map(reply).filter(counts_in).collect();
        // "3 packets transmitted, 2 received, +1 duplicates, 33% packet loss, time 2003ms"
        let summary = output.lines().find(|line| line.contains("packets transmitted"));
        let mut counts = summary
            .ok_or_else(|| nonsense("no summary"))?
            .split(", ")
            .map(|part| part.split(' ').next().and_then(|count| count.parse::<u32>().ok()));
        let sent = counts.next().flatten().ok_or_else(|| nonsense("how many were sent?"))?;
        let received = counts.next().flatten().ok_or_else(|| nonsense("how many came back?"))?;
        if sent <= count {
            return Ok(Self { sent, received, replies });
        }
        let received = u32::try_from(replies.len()).unwrap_or(u32::MAX);
        Ok(Self { sent: count, received, replies })
    }
}

/// Returns the time from `since` to the first later reply.
fn first_after(mut replies: impl Iterator<Item = Reply>, since: SystemTime) -> Option<Duration> {
    replies.find_map(|reply| reply.at.duration_since(since).ok())
}

/// Parses a line such as `[1700000000.123456] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.123
/// ms`; `None` for any other line, including a duplicate reply.
fn reply(line: &str) -> Option<Reply> {
    if line.ends_with("(DUP!)") {
        return None;
    }
    let after = |key: &str| line.split_once(key)?.1.split([' ', ']']).next();
    let at = after("[")?.parse().ok().and_then(|at| Duration::try_from_secs_f64(at).ok())?;
    let seq = after("icmp_seq=")?.parse().ok()?;
    let ms: f64 = after("time=")?.parse().ok()?;
    let rtt = Duration::try_from_secs_f64(ms / 1000.0).ok()?;
    Some(Reply { seq, at: UNIX_EPOCH + at, rtt })
}

/// Number of requests sent after the counted ones, so that the last counted ones have time for a
/// reply.
const TAIL: u32 = 5;

/// A series shorter than this is sent without a tail.
const SHORT: u32 = 20;

/// A `ping` in the background.
#[derive(Debug)]
pub struct Pinging<'lab> {
    lab: &'lab Lab,
    ping: Running,
    count: u32,
    /// Time by which it ends on its own.
    limit: Duration,
}

impl<'lab> Pinging<'lab> {
    pub(super) fn start(
        lab: &'lab Lab,
        mut command: Command,
        address: &str,
        count: u32,
        interval: Duration,
    ) -> Result<Self, LabError> {
        let seconds = format!("{:.3}", interval.as_secs_f64());
        // -W 1: ping waits one second after the last request for any reply. If there were replies
        // before, it waits only about as long as those took, and a late reply counts as lost.
        let more = if count < SHORT { count } else { count + TAIL };
        command.args(["-n", "-D", "-W", "1", "-c", &more.to_string(), "-i", &seconds, address]);
        let ping = lab.start("ping", command)?;
        Ok(Self { lab, ping, count, limit: interval * more + Duration::from_secs(15) })
    }

    /// Returns the number of requests answered so far.
    pub fn received_so_far(&self) -> usize {
        self.ping.stdout().lines().filter_map(reply).count()
    }

    /// Returns the time from `since` to the first later reply; `None` if there is none so far.
    pub fn first_reply_after(&self, since: SystemTime) -> Option<Duration> {
        first_after(self.ping.stdout().lines().filter_map(reply), since)
    }

    /// Waits until `n` requests are answered.
    ///
    /// # Errors
    /// [`LabError::TooLate`] with ping's output.
    pub fn wait_for(&mut self, n: usize, limit: Duration) -> Result<(), LabError> {
        self.lab.wait_for(format!("{n} pings are answered"), limit, |evidence| {
            evidence.0 = super::child::last_lines(&self.ping.stdout(), 5);
            Ok((self.received_so_far() >= n).then_some(()))
        })
    }

    /// Ends it now, and returns the result. The last requests may have had no time for a reply.
    ///
    /// # Errors
    /// Like [`Pinging::finish`].
    pub fn end(self) -> Result<PingReport, LabError> {
        self.ping.signal(Signal::INT);
        self.finish()
    }

    /// Waits until `ping` ends and returns the result.
    ///
    /// # Errors
    /// `ping` could not send, or its output cannot be parsed.
    pub fn finish(mut self) -> Result<PingReport, LabError> {
        let limit = self.limit;
        let status = self.lab.wait_for("ping ends", limit, |_| Ok(self.ping.ended()))?;
        // Exit code 1 means "no reply", which the report expresses better.
        if !matches!(status.code(), Some(0 | 1)) {
            let (command, stderr) = ("ping".to_owned(), self.ping.stderr());
            return Err(LabError::Command { command, status, stderr });
        }
        PingReport::parse(&self.ping.stdout(), self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.
[1700000000.500000] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=3.25 ms
[1700000000.510000] 64 bytes from 10.0.0.2: icmp_seq=2 ttl=64 time=0.125 ms
[1700000000.510100] 64 bytes from 10.0.0.2: icmp_seq=2 ttl=64 time=0.225 ms (DUP!)
From 10.0.0.1 icmp_seq=3 Destination Host Unreachable

--- 10.0.0.2 ping statistics ---
3 packets transmitted, 2 received, +1 duplicates, +1 errors, 33.3333% packet loss, time 20ms
rtt min/avg/max/mdev = 0.125/1.687/3.250/1.563 ms
";

    #[test]
    fn ping_output_parses_losses_and_duplicates() {
        let report = PingReport::parse(OUTPUT, 3).unwrap();
        assert_eq!((report.sent, report.received, report.lost()), (3, 2, 1));
        let first = PingReport::parse(OUTPUT, 1).unwrap();
        assert_eq!((first.sent, first.received, first.replies.len()), (1, 1, 1));
        assert_eq!(report.rtts(), [Duration::from_micros(3250), Duration::from_micros(125)]);
        assert_eq!(report.replies[1].seq, 2);
        let since = UNIX_EPOCH + Duration::from_millis(1_700_000_000_505);
        let first = report.first_reply_after(since).unwrap();
        assert!(first.abs_diff(Duration::from_millis(5)) < Duration::from_micros(10), "{first:?}");
    }

    #[test]
    fn output_without_summary_is_quoted() {
        let error = PingReport::parse("ping: 10.0.0.2: no route\n", 3).unwrap_err();
        assert!(error.to_string().contains("no route"), "{error}");
    }
}
