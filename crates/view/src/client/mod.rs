//! Sends operators' requests to a running Rosemary: clients of the monitor, the kernel and the log service.
//!
//! A program that does not reply within [`REPLY_TIMEOUT`] is reported, so that it does not block the operator's
//! terminal.

mod details;
pub mod entries;
mod log;
mod provided;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use control::app_report::AppReport;
use control::change::{ChangeReport, ChangeRequest};
use control::incident::{Incident, IncidentId};
use control::northbound::TokenRecord;
use control::operator::{OperatorReply, OperatorRequest, ProgramUsage, Status};
use control::query::{
    AppCounters, FLOWS_TIMEOUT, FlowStatus, KernelQuery, KernelQueryReply, Orphans, SwitchStatus,
};
use openflow::Dpid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sdk::services::Service;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sys::channel::{Channel, ChannelError};
use thiserror::Error;

pub use self::log::Log;
pub use self::provided::Provided;

/// The longest time that the client waits for a reply.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a request got no result.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The program closed the connection, or its reply could not be read.
    #[error("{peer} did not reply; see its log")]
    NoReply {
        /// The program.
        peer: &'static str,
        /// What happened to the connection.
        source: ChannelError,
    },
    /// The program did not reply in time.
    #[error("{peer} did not reply within {} s", .timeout.as_secs())]
    TimedOut {
        /// The program.
        peer: &'static str,
        /// The time that it had.
        timeout: Duration,
    },
    /// The kernel or the log service could not obtain the data.
    #[error("{0}")]
    Failed(String),
    /// The monitor refused the request.
    #[error("the monitor refused: {0}")]
    Refused(String),
    /// The monitor cannot connect the client to the program now.
    #[error("not available now: {0}")]
    Unavailable(String),
    /// The reply does not fit the request, as from a program of another version.
    #[error("{peer} sent an unexpected reply; check that it has the same version as this command")]
    Unexpected {
        /// The program.
        peer: &'static str,
    },
}

/// The longest configuration in bytes, as it is shown.
const MAX_CONFIG: usize = 2 << 20;

/// The text of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigText {
    /// The file; `None` if there is none.
    pub file: Option<PathBuf>,
    /// The SHA-256 of the file with its secrets, in hexadecimal digits.
    pub sha256: String,
    /// The text, without its secrets.
    pub toml: String,
    /// The keys whose values are hidden.
    pub redacted: Vec<String>,
}

/// A connection to the monitor of a running Rosemary.
#[derive(Debug)]
pub struct Monitor(Channel);

impl Monitor {
    /// Speaks over a connection to the admin socket.
    pub fn over(channel: Channel) -> Self {
        Self(channel)
    }

    /// Requests the status of all programs.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn status(&self) -> Result<Status, ClientError> {
        match self.request(&OperatorRequest::Status)? {
            (OperatorReply::Status(status), _) => Ok(status),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Connects to a service that an app provides.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] if the service does not run; the monitor does not reply, or refuses.
    pub fn service(&self, service: Service) -> Result<Provided, ClientError> {
        let request = OperatorRequest::Service { name: service.name().into() };
        match exchange(&self.0, &request, "the monitor", REPLY_TIMEOUT)? {
            (OperatorReply::Service, fds) => Provided::new(service, fds),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests the report about the app `name`.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] if no app of this name is to run; the monitor does not reply, or refuses.
    pub fn app(&self, name: &str) -> Result<AppReport, ClientError> {
        match self.request(&OperatorRequest::App { name: name.into() })? {
            (OperatorReply::App(report), _) => Ok(*report),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests the resource use of all programs.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn usage(&self) -> Result<Vec<ProgramUsage>, ClientError> {
        match self.request(&OperatorRequest::Usage)? {
            (OperatorReply::Usage(usage), _) => Ok(usage),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests a connection to the kernel.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] while the kernel does not run; the monitor does not reply, or refuses.
    pub fn kernel(&self) -> Result<Kernel, ClientError> {
        match self.request(&OperatorRequest::Kernel)? {
            (OperatorReply::Kernel, Some(fd)) => Ok(Kernel(Channel::from_fd(fd))),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests a connection to the log service.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] while the log service does not run; the monitor does not reply, or refuses.
    pub fn log(&self) -> Result<Log, ClientError> {
        match self.request(&OperatorRequest::Log)? {
            (OperatorReply::Log, Some(fd)) => Ok(Log::new(fd)),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests a change, which goes on after the reply.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] while another change is made; the monitor does not reply, or refuses.
    pub fn change(&self, request: ChangeRequest) -> Result<ChangeReport, ClientError> {
        self.change_report(&OperatorRequest::Change(request))
    }

    /// Requests a change in the name of the user `who`. Only the HTTP interface may do so.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    pub fn change_for(
        &self,
        who: &str,
        request: ChangeRequest,
    ) -> Result<ChangeReport, ClientError> {
        let request = Box::new(OperatorRequest::Change(request));
        self.change_report(&OperatorRequest::As { who: who.into(), request })
    }

    /// Has an audit record written that the user `who` has done `what`. Only the HTTP interface may do so.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn audit(&self, who: &str, what: &str) -> Result<(), ClientError> {
        let request = Box::new(OperatorRequest::Audit { what: what.into() });
        match self.request(&OperatorRequest::As { who: who.into(), request })? {
            (OperatorReply::Done, _) => Ok(()),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests a change in the name of the user `who`, with descriptors that belong to it. Only the HTTP interface may do so.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    pub fn change_with(
        &self,
        who: &str,
        request: ChangeRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Result<ChangeReport, ClientError> {
        let request = Box::new(OperatorRequest::Change(request));
        let request = OperatorRequest::As { who: who.into(), request };
        match exchange_with(&self.0, &request, fds, "the monitor", REPLY_TIMEOUT)? {
            (OperatorReply::Change(report), _) => Ok(report),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests the text of the configuration, without its secrets.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn config(&self) -> Result<ConfigText, ClientError> {
        match self.request(&OperatorRequest::Config)? {
            (OperatorReply::Config { file, sha256, redacted }, Some(fd)) => {
                let text = sys::shm::read_sealed(fd, MAX_CONFIG).ok();
                let text = text.and_then(|text| String::from_utf8(text).ok());
                let text = text.ok_or(ClientError::Unexpected { peer: "the monitor" })?;
                Ok(ConfigText { file, sha256, toml: text, redacted })
            }
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Adds a token of the HTTP interface. Returns the interface's address; `None` if it has only the Unix socket.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] without an interface; the monitor does not reply, or refuses.
    pub fn add_token(&self, token: TokenRecord) -> Result<Option<SocketAddr>, ClientError> {
        match self.request(&OperatorRequest::AddToken(token))? {
            (OperatorReply::Interface { api }, _) => Ok(api),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Lists the tokens of the HTTP interface.
    ///
    /// # Errors
    /// As [`add_token`](Self::add_token).
    pub fn tokens(&self) -> Result<Vec<TokenRecord>, ClientError> {
        match self.request(&OperatorRequest::Tokens)? {
            (OperatorReply::Tokens(tokens), _) => Ok(tokens),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Revokes the tokens with this identifier or name, in the name of the user `who` if the HTTP interface does so. Returns their number.
    ///
    /// # Errors
    /// As [`add_token`](Self::add_token).
    pub fn revoke_token(&self, which: &str, who: Option<&str>) -> Result<usize, ClientError> {
        let request = OperatorRequest::RevokeToken { which: which.into() };
        let request = match who {
            None => request,
            Some(who) => OperatorRequest::As { who: who.into(), request: Box::new(request) },
        };
        match self.request(&request)? {
            (OperatorReply::Revoked(number), _) => Ok(number),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests a later report of a change.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn change_so_far(&self, id: u64) -> Result<ChangeReport, ClientError> {
        self.change_report(&OperatorRequest::ChangeReport { id })
    }

    fn change_report(&self, request: &OperatorRequest) -> Result<ChangeReport, ClientError> {
        match self.request(request)? {
            (OperatorReply::Change(report), _) => Ok(report),
            (reply, _) => Err(refusal(reply)),
        }
    }

    /// Requests the incidents from number `from` on, in ascending order.
    ///
    /// # Errors
    /// The monitor does not reply, or refuses.
    pub fn incidents(&self, mut from: IncidentId) -> Result<Vec<Incident>, ClientError> {
        let mut all: Vec<Incident> = Vec::new();
        loop {
            let (reply, _) = self.request(&OperatorRequest::Incidents { from })?;
            let OperatorReply::Incidents { incidents, more } = reply else {
                return Err(refusal(reply));
            };
            all.extend(incidents);
            match all.last() {
                // Numbers that do not grow would lead to the same request again.
                Some(last) if more && last.id >= from => from = IncidentId(last.id.0 + 1),
                _ if more => return Err(ClientError::Unexpected { peer: "the monitor" }),
                _ => return Ok(all),
            }
        }
    }

    fn request(
        &self,
        request: &OperatorRequest,
    ) -> Result<(OperatorReply, Option<OwnedFd>), ClientError> {
        let (reply, fds) = exchange(&self.0, request, "the monitor", REPLY_TIMEOUT)?;
        Ok((reply, fds.into_iter().next()))
    }
}

/// A connection to the kernel of a running Rosemary.
#[derive(Debug)]
pub struct Kernel(Channel);

impl Kernel {
    const NAME: &str = "the kernel";

    /// Requests the counters of the apps' packet-ins and messages.
    ///
    /// # Errors
    /// The kernel does not reply.
    pub fn apps(&self) -> Result<Vec<AppCounters>, ClientError> {
        match exchange(&self.0, &KernelQuery::Apps, Self::NAME, REPLY_TIMEOUT)? {
            (KernelQueryReply::Apps(apps), _) => Ok(apps),
            _ => Err(ClientError::Unexpected { peer: Self::NAME }),
        }
    }

    /// Requests the connected switches, in the order of their datapath ids.
    ///
    /// # Errors
    /// The kernel does not reply.
    pub fn switches(&self) -> Result<Vec<SwitchStatus>, ClientError> {
        let unexpected = || ClientError::Unexpected { peer: Self::NAME };
        let mut all: Vec<SwitchStatus> = Vec::new();
        loop {
            let after = match all.last() {
                Some(last) => Some(last.dpid.parse::<Dpid>().map_err(|_| unexpected())?.0),
                None => None,
            };
            let query = KernelQuery::Switches { after };
            let (reply, _) = exchange(&self.0, &query, Self::NAME, REPLY_TIMEOUT)?;
            let KernelQueryReply::Switches { switches, more } = reply else {
                return Err(unexpected());
            };
            if more && switches.is_empty() {
                return Err(unexpected()); // otherwise this loop would never end
            }
            all.extend(switches);
            if !more {
                return Ok(all);
            }
        }
    }

    /// Reads what apps that do not run any more own in the switches, or in one, and removes it if `remove`. Waits until
    /// the switches have answered, at most [`FLOWS_TIMEOUT`]. Returns `None` if no such switch is connected.
    ///
    /// # Errors
    /// The kernel does not reply.
    pub fn orphans(&self, dpid: Option<u64>, remove: bool) -> Result<Option<Orphans>, ClientError> {
        const PAUSE: Duration = Duration::from_millis(50);
        let unexpected = || ClientError::Unexpected { peer: Self::NAME };
        let read = KernelQuery::ReadOrphans { dpid, remove };
        match exchange(&self.0, &read, Self::NAME, REPLY_TIMEOUT)?.0 {
            KernelQueryReply::ReadingOrphans => {}
            KernelQueryReply::NoSwitch => return Ok(None),
            _ => return Err(unexpected()),
        }
        let deadline = Instant::now() + FLOWS_TIMEOUT;
        loop {
            let mut all = Orphans::default();
            loop {
                let query = KernelQuery::Orphans { skip: all.found.len() };
                let (reply, _) = exchange(&self.0, &query, Self::NAME, REPLY_TIMEOUT)?;
                let KernelQueryReply::Orphans { orphans, more } = reply else {
                    return Err(unexpected());
                };
                if more && orphans.found.is_empty() {
                    return Err(unexpected()); // otherwise this loop would never end
                }
                (all.awaited, all.failed) = (orphans.awaited, orphans.failed);
                all.found.extend(orphans.found);
                if !more {
                    break;
                }
            }
            if all.awaited == 0 || Instant::now() >= deadline {
                return Ok(Some(all));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Requests the flows of a switch, in the switch's order. Returns `None` if no such switch is connected.
    ///
    /// # Errors
    /// [`ClientError::Failed`] if the switch does not report them; the kernel does not reply.
    pub fn flows(&self, dpid: u64) -> Result<Option<Vec<FlowStatus>>, ClientError> {
        let mut all = Vec::new();
        let mut query = KernelQuery::Flows { dpid };
        loop {
            let (reply, _) = exchange(&self.0, &query, Self::NAME, FLOWS_TIMEOUT)?;
            match reply {
                KernelQueryReply::NoSwitch => return Ok(None),
                KernelQueryReply::Failed { why } => return Err(ClientError::Failed(why)),
                KernelQueryReply::Flows { flows, more } => {
                    if more && flows.is_empty() {
                        return Err(ClientError::Unexpected { peer: Self::NAME });
                    }
                    all.extend(flows);
                    if !more {
                        return Ok(Some(all));
                    }
                }
                _ => return Err(ClientError::Unexpected { peer: Self::NAME }),
            }
            query = KernelQuery::MoreFlows;
        }
    }
}

fn refusal(reply: OperatorReply) -> ClientError {
    match reply {
        OperatorReply::Refused { why } => ClientError::Refused(why),
        OperatorReply::Unavailable { why } => ClientError::Unavailable(why),
        OperatorReply::Status(_)
        | OperatorReply::App(_)
        | OperatorReply::Usage(_)
        | OperatorReply::Kernel
        | OperatorReply::Log
        | OperatorReply::Done
        | OperatorReply::Config { .. }
        | OperatorReply::Interface { .. }
        | OperatorReply::Tokens(_)
        | OperatorReply::Revoked(_)
        | OperatorReply::Service
        | OperatorReply::Change(_)
        | OperatorReply::Incidents { .. } => ClientError::Unexpected { peer: "the monitor" },
    }
}

/// Sends a request and waits for the reply.
fn exchange<Q: Serialize, A: DeserializeOwned>(
    channel: &Channel,
    request: &Q,
    peer: &'static str,
    timeout: Duration,
) -> Result<(A, Vec<OwnedFd>), ClientError> {
    exchange_with(channel, request, &[], peer, timeout)
}

/// Sends a request with descriptors, and waits for the reply.
fn exchange_with<Q: Serialize, A: DeserializeOwned>(
    channel: &Channel,
    request: &Q,
    fds: &[BorrowedFd<'_>],
    peer: &'static str,
    timeout: Duration,
) -> Result<(A, Vec<OwnedFd>), ClientError> {
    let no_reply = |source| ClientError::NoReply { peer, source };
    channel.send(request, fds).map_err(no_reply)?;
    let deadline = Instant::now() + timeout;
    loop {
        match channel.receive() {
            Err(ChannelError::WouldBlock) => {}
            result => return result.map_err(no_reply),
        }
        wait(channel, peer, timeout, deadline)?;
    }
}

/// Waits until the socket is readable, or fails at `deadline`.
fn wait(
    socket: &impl AsFd,
    peer: &'static str,
    timeout: Duration,
    deadline: Instant,
) -> Result<(), ClientError> {
    let timed_out = || ClientError::TimedOut { peer, timeout };
    let rest = deadline.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        return Err(timed_out());
    }
    let rest = Timespec::try_from(rest).map_err(|_| timed_out())?;
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&rest)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => {
            Err(ClientError::NoReply { peer, source: ChannelError::System(error.into()) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(number: u64) -> SwitchStatus {
        SwitchStatus {
            dpid: format!("00:00:00:00:00:00:00:{number:02x}"),
            version: "1.3".into(),
            address: "127.0.0.1:43210".into(),
            transport: "tcp".into(),
            epoch: 1,
            ports: 2,
            n_tables: 1,
            table_size: None,
            flows: None,
            fullest: None,
            packet_ins: 0,
            dropped: 0,
            pauses: 0,
            guarded: 0,
            flow_mods: 0,
            packet_outs: 0,
            refused: 0,
            unsent: 0,
            errors: 0,
        }
    }

    /// Answers queries with pages of two switches, from 1 to `last`.
    fn kernel_with(last: u64) -> Kernel {
        let (ours, theirs) = Channel::pair().unwrap();
        std::thread::spawn(move || {
            loop {
                poll(&mut [PollFd::new(&theirs, PollFlags::IN)], None).unwrap();
                let Ok((KernelQuery::Switches { after }, _)) = theirs.receive() else { return };
                let first = after.map_or(1, |after| after + 1);
                let switches = (first..=last).take(2).map(switch).collect();
                let reply = KernelQueryReply::Switches { switches, more: first + 1 < last };
                theirs.send(&reply, &[]).unwrap();
            }
        });
        Kernel(ours)
    }

    #[test]
    fn switches_arrive_in_pages() {
        for last in [0, 1, 2, 3, 5] {
            let switches = kernel_with(last).switches().unwrap();
            let numbers: Vec<_> =
                switches.iter().map(|it| it.dpid.parse::<Dpid>().unwrap().0).collect();
            assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
        }
    }

    #[test]
    fn flows_arrive_in_pages_and_failure_is_reported() {
        let flow = |number: u16| FlowStatus {
            table: 0,
            priority: number,
            owner: "kernel".into(),
            cookie: "0x0".into(),
            match_: String::new(),
            actions: String::new(),
            packets: None,
            bytes: None,
            duration_ms: 0,
            idle_timeout: 0,
            hard_timeout: 0,
        };
        let (ours, theirs) = Channel::pair().unwrap();
        std::thread::spawn(move || {
            let page = |flows: std::ops::Range<u16>, more| KernelQueryReply::Flows {
                flows: flows.map(flow).collect(),
                more,
            };
            let why = "the switch does not answer".to_owned();
            let replies = [
                page(0..2, true),
                page(2..3, false),
                KernelQueryReply::NoSwitch,
                KernelQueryReply::Failed { why },
            ];
            for (number, reply) in replies.into_iter().enumerate() {
                poll(&mut [PollFd::new(&theirs, PollFlags::IN)], None).unwrap();
                let expected = if number == 1 {
                    KernelQuery::MoreFlows
                } else {
                    KernelQuery::Flows { dpid: 7 }
                };
                assert_eq!(theirs.receive::<KernelQuery>().unwrap().0, expected);
                theirs.send(&reply, &[]).unwrap();
            }
        });
        let kernel = Kernel(ours);
        let flows = kernel.flows(7).unwrap().unwrap();
        assert!(flows.iter().map(|flow| flow.priority).eq(0..3));
        assert!(kernel.flows(7).unwrap().is_none());
        assert_eq!(kernel.flows(7).unwrap_err().to_string(), "the switch does not answer");
    }

    #[test]
    fn closed_connection_is_an_error() {
        let (ours, theirs) = Channel::pair().unwrap();
        drop(theirs);
        let error = Monitor(ours).status().unwrap_err().to_string();
        assert_eq!(error, "the monitor did not reply; see its log");
    }
}
