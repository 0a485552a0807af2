//! Serves the apps that may read the counters of other apps, or limit them (`sdk::services::apps`).
//!
//! The monitor itself provides this service: it knows the rights, and it alone commands the kernel. A client is an app's end
//! of a socket, which identifies the app. Reading never blocks, and the number of requests of a client is bounded per second.
//! The counters come from the kernel over a connection of the monitor's own. Clients that ask while a reading is under way
//! wait for the next one.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use control::query::{AppCounters, KernelQuery, KernelQueryReply, SwitchSender};
use control::service::ServiceClient;
use sdk::services::apps::{self, Answer, MOST_ELEMENTS, Request};
use sdk::services::wire::Reader;
use sdk::services::{MAX_MESSAGE, REQUEST_HEAD, REQUEST_OF_APP};
use supervisor::effects::{ClientId, Fd, LimitRequest};
use sys::channel::{Channel, ChannelError};
use sys::packets::{PacketError, Packets};
use tracing::warn;

/// Most requests of a client in a second. The others are refused.
const MOST_REQUESTS: u32 = 20;
const PERIOD: Duration = Duration::from_secs(1);

/// Most clients, so that their descriptors are bounded: each of 64 apps may have an instance for each of 16 workers.
const MOST_CLIENTS: usize = 1024;

/// How long the kernel may take for the counters.
const PATIENCE: Duration = Duration::from_secs(3);

/// The clients, and the reading that they wait for.
#[derive(Debug, Default)]
pub(crate) struct AppsService {
    clients: Vec<Client>,
    last_client: u64,
    kernel: Option<Channel>,
    /// The reading under way.
    reading: Option<Reading>,
}

#[derive(Debug)]
struct Client {
    id: ClientId,
    of: ServiceClient,
    socket: Packets,
    /// Since when requests are counted, and their number.
    period: (Instant, u32),
    /// The number of the request for counters that waits for the kernel.
    waiting: Option<u64>,
}

/// A reading of the kernel's counters.
#[derive(Debug)]
struct Reading {
    since: Instant,
    apps: Option<Vec<AppCounters>>,
    senders: Vec<SwitchSender>,
    /// The clients that asked before it began.
    for_clients: Vec<ClientId>,
}

/// The counters of all apps and their pairs with switches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) apps: Vec<AppCounters>,
    pub(crate) senders: Vec<SwitchSender>,
    for_clients: Vec<ClientId>,
}

impl AppsService {
    /// Adds a client with the monitor's end of its socket.
    pub(crate) fn add(&mut self, of: ServiceClient, socket: &Fd, now: Instant) {
        let socket = match socket.try_clone() {
            Ok(socket) => Packets::from_fd(socket),
            Err(error) => {
                let hint = "restart the app once fewer descriptors are open";
                warn!(app = of.name, %error, hint, "could not connect an app to the service apps");
                return;
            }
        };
        if self.clients.len() >= MOST_CLIENTS {
            warn!(
                app = of.name,
                "could not connect an app to the service apps: there are too many"
            );
            return;
        }
        self.last_client += 1;
        let id = ClientId(self.last_client);
        self.clients.push(Client { id, of, socket, period: (now, 0), waiting: None });
    }

    /// The clients' sockets.
    pub(crate) fn client_fds(&self) -> impl Iterator<Item = (ClientId, BorrowedFd<'_>)> {
        self.clients.iter().map(|client| (client.id, client.socket.as_fd()))
    }

    /// Readable when the kernel has answered.
    pub(crate) fn kernel_fd(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.as_ref().map(AsFd::as_fd)
    }

    /// Whether a client waits for counters and no reading is under way. [`begin_reading`](Self::begin_reading) then begins one.
    pub(crate) fn must_read(&self) -> bool {
        self.reading.is_none() && self.clients.iter().any(|client| client.waiting.is_some())
    }

    /// Whether there is a connection to the kernel.
    pub(crate) fn is_connected(&self) -> bool {
        self.kernel.is_some()
    }

    /// Uses a new connection to the kernel.
    pub(crate) fn connected(&mut self, kernel: Channel) {
        self.kernel = Some(kernel);
    }

    /// The kernel has ended, or does not answer: the clients that wait are refused, and may ask again.
    pub(crate) fn disconnect(&mut self) {
        (self.kernel, self.reading) = (None, None);
        let why = Answer::Refused("the kernel does not answer now; ask again".into());
        for index in 0..self.clients.len() {
            if let Some(id) = self.clients.get_mut(index).and_then(|client| client.waiting.take()) {
                self.answer(self.clients[index].id, id, &why, false);
            }
        }
        self.clients.retain(|client| client.id != ClientId(0));
    }

    /// Requests the counters from the kernel for the clients that wait.
    pub(crate) fn begin_reading(&mut self, now: Instant) {
        let Some(kernel) = &self.kernel else { return };
        if kernel.send(&KernelQuery::Apps, &[]).is_err() {
            return self.disconnect();
        }
        let waiting = self.clients.iter().filter(|client| client.waiting.is_some());
        let for_clients = waiting.map(|client| client.id).collect();
        self.reading = Some(Reading { since: now, apps: None, senders: Vec::new(), for_clients });
    }

    /// When [`give_up`](Self::give_up) is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.reading.as_ref().map(|reading| reading.since + PATIENCE)
    }

    /// Ends a reading that takes too long.
    pub(crate) fn give_up(&mut self, now: Instant) {
        if self.next_due().is_some_and(|due| due <= now) {
            self.disconnect();
        }
    }

    /// Receives an answer of the kernel. Returns the counters once they are complete.
    pub(crate) fn receive_from_kernel(&mut self) -> Option<Counted> {
        let (kernel, reading) = (self.kernel.as_ref()?, self.reading.as_mut());
        let next = match (kernel.receive::<KernelQueryReply>(), reading) {
            (Err(ChannelError::WouldBlock), _) => return None,
            (Ok((KernelQueryReply::Apps(apps), _)), Some(reading)) if reading.apps.is_none() => {
                reading.apps = Some(apps);
                KernelQuery::Senders { after: None }
            }
            (Ok((KernelQueryReply::Senders { senders, more }, _)), Some(reading))
                if reading.apps.is_some() =>
            {
                reading.senders.extend(senders);
                let after = reading.senders.last().map(|it| it.dpid);
                if !more || after.is_none() {
                    let Reading { apps, senders, for_clients, .. } = self.reading.take()?;
                    return Some(Counted { apps: apps.unwrap_or_default(), senders, for_clients });
                }
                KernelQuery::Senders { after }
            }
            _ => {
                self.disconnect();
                return None;
            }
        };
        if self.kernel.as_ref()?.send(&next, &[]).is_err() {
            self.disconnect();
        }
        None
    }

    /// Answers the clients for which the counters were read. `apps` are the apps as they see them.
    pub(crate) fn answer_counters(&mut self, counted: &Counted, apps: Vec<apps::AppCounters>) {
        let senders: Vec<apps::Sender> = counted
            .senders
            .iter()
            .map(|it| apps::Sender {
                dpid: sdk::Dpid(it.dpid),
                epoch: it.epoch,
                app: it.app.0,
                flow_mods: it.flow_mods,
            })
            .collect();
        let mut answers = vec![Answer::Apps(apps)];
        let mut parts = senders.chunks(MOST_ELEMENTS).peekable();
        if parts.peek().is_none() {
            answers.push(Answer::Senders { senders: Vec::new(), more: false });
        }
        while let Some(part) = parts.next() {
            let more = parts.peek().is_some();
            answers.push(Answer::Senders { senders: part.to_vec(), more });
        }
        for client in &counted.for_clients {
            let waiting = self.clients.iter_mut().find(|it| it.id == *client);
            let Some(id) = waiting.and_then(|client| client.waiting.take()) else { continue };
            let last = answers.len() - 1;
            for (number, answer) in answers.iter().enumerate() {
                self.answer(*client, id, answer, number < last);
            }
        }
        self.clients.retain(|client| client.id != ClientId(0));
    }

    /// Receives a request of a client. Answers it, or returns it if the supervisor decides.
    pub(crate) fn receive(&mut self, id: ClientId, now: Instant) -> Option<LimitRequest> {
        let client = self.clients.iter_mut().find(|client| client.id == id)?;
        let mut buffer = vec![0; REQUEST_HEAD + MAX_MESSAGE];
        let size = match client.socket.receive(&mut buffer) {
            Ok((size, _)) => size,
            Err(PacketError::WouldBlock) => return None,
            Err(_) => {
                self.clients.retain(|client| client.id != id);
                return None;
            }
        };
        let mut from = Reader(buffer.get(..size).unwrap_or_default());
        let Some(number) = from.u64() else {
            self.clients.retain(|client| client.id != id);
            return None;
        };
        let refusal = match client.admit(&mut from, number, now) {
            Ok(request) => return request,
            Err(why) => Answer::Refused(why),
        };
        self.answer(id, number, &refusal, false);
        self.clients.retain(|client| client.id != ClientId(0));
        None
    }

    /// Answers a request that [`receive`](Self::receive) returned.
    pub(crate) fn decided(&mut self, request: &LimitRequest, decision: Result<(), String>) {
        let answer = decision.map_or_else(Answer::Refused, |()| Answer::Done);
        self.answer(request.client, request.id, &answer, false);
        self.clients.retain(|client| client.id != ClientId(0));
    }

    /// Sends an answer. A client that does not read its answers is disconnected: its id becomes 0.
    fn answer(&mut self, client: ClientId, id: u64, answer: &Answer, more: bool) {
        let Some(client) = self.clients.iter_mut().find(|it| it.id == client) else { return };
        let packet = [&id.to_le_bytes()[..], &[u8::from(more)], &answer.encode()].concat();
        if client.socket.send(&packet).is_err() {
            client.id = ClientId(0);
        }
    }
}

impl Client {
    /// Checks a request. `Ok(None)` if it waits for the kernel's counters.
    ///
    /// # Errors
    /// Why it is refused, as a phrase.
    fn admit(
        &mut self,
        from: &mut Reader<'_>,
        number: u64,
        now: Instant,
    ) -> Result<Option<LimitRequest>, String> {
        let (since, count) = self.period;
        self.period = if now.saturating_duration_since(since) < PERIOD {
            (since, count.saturating_add(1))
        } else {
            (now, 1)
        };
        if self.period.1 > MOST_REQUESTS {
            return Err(format!("an app may send {MOST_REQUESTS} requests per second; wait"));
        }
        let body = from.u8().filter(|first| *first == REQUEST_OF_APP).map(|_| from.0);
        let request = body.and_then(Request::decode).ok_or("the request is malformed")?;
        let (app, limit) = match request {
            Request::Counters => {
                self.must_have("apps.read")?;
                if self.waiting.is_some() {
                    return Err("an earlier request for counters is not answered yet".into());
                }
                self.waiting = Some(number);
                return Ok(None);
            }
            Request::Limit { app, measure, seconds, why } => {
                let time = Duration::from_secs(seconds.into());
                (app, Some((measure, time, why.to_owned())))
            }
            Request::Release { app } => (app, None),
        };
        self.must_have(&format!("apps.limit:{app}"))?;
        let (by, app) = (self.of.name.clone(), app.to_owned());
        Ok(Some(LimitRequest { client: self.id, id: number, by, app, limit }))
    }

    fn must_have(&self, right: &str) -> Result<(), String> {
        let has = self.of.rights.names.iter().any(|name| name == right);
        has.then_some(()).ok_or_else(|| format!("the operator has not granted {right}"))
    }
}

#[cfg(test)]
mod tests {
    use control::service::ClientRights;
    use sdk::services::apps::Measure;

    use super::*;

    fn client(rights: &[&str]) -> (AppsService, Packets) {
        let names = rights.iter().map(|it| (*it).to_owned()).collect();
        let rights = ClientRights { names, ..ClientRights::default() };
        let of = ServiceClient { app: 7, name: "protection".into(), rights };
        let (ours, theirs) = Packets::pair().unwrap();
        let mut service = AppsService::default();
        service.add(of, &Fd::new(ours.into_fd()), Instant::now());
        (service, theirs)
    }

    /// Sends bytes as request 5 and has the service read them.
    fn ask(service: &mut AppsService, socket: &Packets, body: &[u8]) -> Option<LimitRequest> {
        let head = [&5_u64.to_le_bytes()[..], &[REQUEST_OF_APP]].concat();
        socket.send(&[&head[..], body].concat()).unwrap();
        let id = service.client_fds().next().unwrap().0;
        service.receive(id, Instant::now())
    }

    fn answer(socket: &Packets) -> Option<(bool, Answer)> {
        let mut buffer = vec![0; MAX_MESSAGE + 9];
        let (size, _) = socket.receive(&mut buffer).ok()?;
        assert_eq!(buffer[..8], 5_u64.to_le_bytes());
        Some((buffer[8] != 0, Answer::decode(&buffer[9..size]).unwrap()))
    }

    fn why(socket: &Packets) -> String {
        match answer(socket) {
            Some((false, Answer::Refused(why))) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn app_without_a_right_is_refused() {
        let (mut service, socket) = client(&["apps.limit:bulk"]);
        assert_eq!(ask(&mut service, &socket, &Request::Counters.encode()), None);
        assert_eq!(why(&socket), "the operator has not granted apps.read");
        let limit = |app| {
            let measure = Measure::Throttle(100);
            Request::Limit { app, measure, seconds: 10, why: "fast" }.encode()
        };
        for app in ["firewall", "bulk2", "bul", ""] {
            assert_eq!(ask(&mut service, &socket, &limit(app)), None);
            assert_eq!(why(&socket), format!("the operator has not granted apps.limit:{app}"));
        }
        let release = Request::Release { app: "firewall" }.encode();
        assert_eq!(ask(&mut service, &socket, &release), None);
        assert!(why(&socket).ends_with("apps.limit:firewall"));
        let granted = ask(&mut service, &socket, &limit("bulk")).unwrap();
        assert_eq!((&*granted.by, &*granted.app), ("protection", "bulk"));
        service.decided(&granted, Ok(()));
        assert_eq!(answer(&socket), Some((false, Answer::Done)));
    }

    #[test]
    fn hostile_requests_are_refused_and_bounded() {
        let (mut service, socket) = client(&["apps.read"]);
        for body in [&b""[..], &[9], &[2, 0, 0], &[1, 1]] {
            assert_eq!(ask(&mut service, &socket, body), None);
            assert_eq!(why(&socket), "the request is malformed");
        }
        assert_eq!(ask(&mut service, &socket, &Request::Counters.encode()), None);
        assert!(service.must_read() && answer(&socket).is_none(), "it waits for the kernel");
        let mut refused = Vec::new();
        for _ in 0..MOST_REQUESTS {
            ask(&mut service, &socket, &Request::Counters.encode());
            refused.push(why(&socket));
        }
        assert!(refused[0].starts_with("an earlier request"), "{refused:?}");
        assert!(refused.last().unwrap().contains("20 requests per second"), "{refused:?}");
        service.disconnect();
        assert!(why(&socket).starts_with("the kernel does not answer"));
        socket.send(&[1, 2]).unwrap();
        let id = service.client_fds().next().unwrap().0;
        assert_eq!(service.receive(id, Instant::now()), None);
        assert_eq!(service.client_fds().count(), 0, "not even a number: it is disconnected");
    }

    #[test]
    fn client_that_does_not_read_is_disconnected() {
        let (mut service, socket) = client(&[]);
        let head = [&5_u64.to_le_bytes()[..], &[REQUEST_OF_APP, 1]].concat();
        for _ in 0..10_000 {
            let Some((id, _)) = service.client_fds().next() else { return };
            socket.send(&head).unwrap();
            service.receive(id, Instant::now());
        }
        panic!("it is still connected");
    }

    #[test]
    fn counters_of_many_pairs_come_in_parts() {
        let (mut service, socket) = client(&["apps.read"]);
        ask(&mut service, &socket, &Request::Counters.encode());
        let (ours, kernel) = Channel::passing_pair().unwrap();
        service.connected(ours);
        service.begin_reading(Instant::now());
        assert!(matches!(kernel.receive(), Ok((KernelQuery::Apps, _))));
        kernel.send(&KernelQueryReply::Apps(Vec::new()), &[]).unwrap();
        assert_eq!(service.receive_from_kernel(), None);
        let pair =
            |dpid| SwitchSender { dpid, epoch: 1, app: control::app::AppId(3), flow_mods: 9 };
        for (first, more) in [(1, true), (400, true), (800, false)] {
            let Ok((KernelQuery::Senders { after }, _)) = kernel.receive() else {
                panic!("no query")
            };
            assert_eq!(after, (first > 1).then(|| first - 1));
            let last = if more { first + 399 - u64::from(first == 1) } else { first };
            let senders = (first..=last).map(pair).collect();
            kernel.send(&KernelQueryReply::Senders { senders, more }, &[]).unwrap();
            let counted = service.receive_from_kernel();
            assert_eq!(counted.is_some(), !more);
            if let Some(counted) = counted {
                service.answer_counters(&counted, Vec::new());
            }
        }
        let mut seen = Vec::new();
        while let Some((more, answer)) = answer(&socket) {
            if let Answer::Senders { senders, more: announced } = answer {
                assert_eq!(more, announced);
                seen.extend(senders.into_iter().map(|it| it.dpid.0));
            }
        }
        assert!(seen.into_iter().eq(1..=800));
    }
}
