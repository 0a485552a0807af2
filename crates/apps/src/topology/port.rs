//! Holds the state of a port: its probe window, its probes, and what is behind it.

use std::time::Duration;

use rosemary_sdk::services::topology::{Endpoint, PortRecord};
use rosemary_sdk::{MacAddr, Port, PortNo};

use super::discovery::PROBE_LIFE;
use super::latency::Samples;
use super::segments::Role;

/// When the probes of a window are sent, from its begin on.
const WINDOW_PROBES: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(600),
];

/// How long a window lasts after its first probe.
const WINDOW: Duration = Duration::from_secs(1);

/// How long it lasts at least after its last probe.
const LAST_ANSWER: Duration = Duration::from_millis(300);

/// The same, in multiples of the time that probes usually take.
const USUAL_TIMES: u32 = 4;

/// The time between two probes of a port with a link.
const LINK_INTERVAL: Duration = Duration::from_secs(3);

/// The time between two probes of a port with a link that did not answer the last one.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The most time between two probes of any other port.
const EDGE_INTERVAL: Duration = Duration::from_secs(10);

/// The least of them, after the window. Then the time doubles: where many switches connect at once, the probes of a window may be lost.
const FIRST_EDGE_INTERVAL: Duration = Duration::from_secs(1);

/// The least time between two probes of a port.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

/// Unanswered probes, and the time without an answer, after which a link is gone.
const PATIENCE: u32 = 3;
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// The time after which a silent link is gone even if many others are silent, too.
const MOST_PATIENCE: Duration = Duration::from_secs(30);

/// Probes of a port that are remembered.
const REMEMBERED: usize = 8;

/// How long floods stay away from a port at which a relayed probe arrived.
const CAUTION: Duration = Duration::from_secs(30);

/// Times that a port may go down within [`FLAP_SPAN`]; after more, it stays out of use until it was up for that long.
const MOST_FLAPS: u32 = 5;
const FLAP_SPAN: Duration = Duration::from_secs(1);

/// A probe that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) nonce: u64,
    /// Where it arrived first.
    pub(super) arrived: Option<Endpoint>,
}

/// A link that begins at a port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) to: Endpoint,
    pub(super) found: Duration,
    pub(super) latency: Samples,
    /// The latency in the table, which follows large changes only.
    pub(super) shown_latency: Duration,
    pub(super) suspicious: bool,
    /// Samples in a row that speak against `suspicious`.
    pub(super) contrary: u8,
    pub(super) last_seen: Duration,
    /// When a sample was judged last.
    pub(super) judged: Duration,
    /// Probes since the last that crossed it.
    pub(super) unanswered: u32,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct PortState {
    pub(super) hw_addr: MacAddr,
    name: [u8; 16],
    speed_kbps: u64,
    is_up: bool,
    /// Since when it is up, whether or not it is in use.
    up_since: Duration,
    flaps: u32,
    flaps_since: Duration,
    /// Until when it is out of use because it flapped.
    held_until: Duration,
    /// In the probe window: the number of probes sent and when the first and last were.
    window: Option<Window>,
    sent: [Option<Sent>; REMEMBERED],
    last_nonce: u64,
    /// The link that begins here.
    pub(super) link: Option<Link>,
    /// Where the link begins that ends here.
    pub(super) incoming: Option<Endpoint>,
    /// Since when hosts are known here.
    pub(super) host_since: Option<Duration>,
    /// When a probe arrived last that made no link although it came from a port: two ports are joined by something.
    relayed: Option<Duration>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    probes: usize,
    first: Duration,
    last: Duration,
}

impl Window {
    /// Returns the end of a window whose probes have all been sent. A busy controller or switch delivers the last probe late,
    /// and a flood must not leave before it arrives.
    fn end(&self, usual: Duration) -> Duration {
        let answer = LAST_ANSWER.max(usual * USUAL_TIMES).min(PROBE_LIFE);
        (self.first + WINDOW).max(self.last + answer)
    }
}

impl PortState {
    /// Makes the state of a port that is down; [`update`](Self::update) brings it up.
    pub(super) fn new(port: &Port) -> Self {
        Self {
            hw_addr: port.hw_addr,
            name: port.name,
            speed_kbps: port.curr_speed.into(),
            is_up: false,
            up_since: Duration::ZERO,
            flaps: 0,
            flaps_since: Duration::ZERO,
            held_until: Duration::ZERO,
            window: None,
            sent: [None; REMEMBERED],
            last_nonce: 0,
            link: None,
            incoming: None,
            host_since: None,
            relayed: None,
        }
    }

    /// Whether the switch says that it is up.
    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    /// Follows a change of the description. Returns when to probe the port if it is up now and was not before.
    pub(super) fn update(&mut self, port: &Port, now: Duration) -> Option<Duration> {
        (self.hw_addr, self.name) = (port.hw_addr, port.name);
        self.speed_kbps = port.curr_speed.into();
        if self.is_up && !port.is_up() {
            self.go_down(now);
        }
        if self.is_up || !port.is_up() {
            return None;
        }
        (self.is_up, self.up_since) = (true, now);
        if self.flaps > MOST_FLAPS {
            self.held_until = now + FLAP_SPAN;
        }
        self.begin_window();
        let due = match self.last_nonce {
            0 => now,
            last => now.max(Duration::from_nanos(last) + LEAST_INTERVAL),
        };
        Some(due.max(self.held_until))
    }

    fn go_down(&mut self, now: Duration) {
        if now.saturating_sub(self.flaps_since) > FLAP_SPAN {
            (self.flaps, self.flaps_since) = (0, now);
        }
        self.flaps += 1;
        self.is_up = false;
        self.window = None;
        self.sent = [None; REMEMBERED];
        (self.link, self.incoming, self.host_since, self.relayed) = (None, None, None, None);
    }

    /// Until when it is out of use because it flapped, if it is.
    pub(super) fn held_until(&self, now: Duration) -> Option<Duration> {
        Some(self.held_until).filter(|until| self.is_up && now < *until)
    }

    /// Whether packets can leave through it, and it does not flap.
    pub(super) fn is_live(&self, now: Duration) -> bool {
        self.is_up && now >= self.held_until
    }

    /// Since when it is up.
    pub(super) fn up_since(&self) -> Duration {
        self.up_since
    }

    /// Begins a probe window: until its end, and beyond if a link is found, no flood leaves here.
    pub(super) fn begin_window(&mut self) {
        self.window = Some(Window::default());
    }

    pub(super) fn has_link(&self) -> bool {
        self.link.is_some() || self.incoming.is_some()
    }

    /// Whether no switch is behind it.
    pub(super) fn is_edge(&self, now: Duration) -> bool {
        let is_clean = self.relayed.is_none_or(|at| now.saturating_sub(at) > CAUTION);
        self.is_live(now) && self.window.is_none() && !self.has_link() && is_clean
    }

    /// Whether its probe window has not ended.
    pub(super) fn is_in_window(&self) -> bool {
        self.is_up && self.window.is_some()
    }

    /// Notes that a probe arrived or was reflected without a link.
    pub(super) fn note_relay(&mut self, now: Duration) {
        self.relayed = Some(now);
    }

    /// Notes that a probe leaves now. Returns its nonce.
    pub(super) fn send(&mut self, now: Duration) -> u64 {
        let nonce = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).max(self.last_nonce + 1);
        self.last_nonce = nonce;
        self.sent.rotate_right(1);
        self.sent[0] = Some(Sent { nonce, arrived: None });
        if let Some(window) = &mut self.window {
            if window.probes == 0 {
                window.first = now;
            }
            window.probes += 1;
            window.last = now;
        }
        if let Some(link) = &mut self.link {
            link.unanswered += 1;
        }
        nonce
    }

    /// Whether a second probe, which bridges forward, leaves with the one that was sent last: no link is known, and in the
    /// window only with every other probe, as a link has usually answered the first.
    pub(super) fn wants_second_probe(&self) -> bool {
        !self.has_link() && self.window.is_none_or(|window| window.probes % 2 == 0)
    }

    /// Returns the probe with this nonce, if it is remembered.
    pub(super) fn probe(&mut self, nonce: u64) -> Option<&mut Sent> {
        self.sent.iter_mut().flatten().find(|sent| sent.nonce == nonce)
    }

    /// Whether the link is gone because it did not answer its last probes. While the controller is overloaded, silence says
    /// little about a link.
    pub(super) fn link_is_silent(&self, is_overloaded: bool, now: Duration) -> bool {
        self.link.is_some_and(|link| {
            let patience = if is_overloaded { MOST_PATIENCE } else { LEAST_PATIENCE };
            link.unanswered >= PATIENCE && now.saturating_sub(link.last_seen) >= patience
        })
    }

    /// Ends the window if its time is over or a link has been found. Returns whether it ended.
    ///
    /// `usual` is the time from a probe to its packet-in, lately.
    pub(super) fn end_window(&mut self, usual: Duration, now: Duration) -> bool {
        let Some(window) = self.window else { return false };
        let has_sent_all = window.probes >= WINDOW_PROBES.len();
        let ends = (has_sent_all && now >= window.end(usual))
            || (self.link.is_some() && self.incoming.is_some());
        if ends {
            self.window = None;
        }
        ends
    }

    /// Whether the next visit sends a probe, and does not only end the window.
    pub(super) fn wants_probe(&self) -> bool {
        self.window.is_none_or(|window| window.probes < WINDOW_PROBES.len())
    }

    /// Returns when the port has to be visited again after now. `usual` is as for [`end_window`](Self::end_window).
    pub(super) fn next_visit(
        &self,
        is_overloaded: bool,
        is_shared: bool,
        usual: Duration,
        now: Duration,
    ) -> Duration {
        if let Some(window) = self.window {
            return match WINDOW_PROBES.get(window.probes) {
                Some(offset) => (window.first + *offset).max(now + LEAST_INTERVAL),
                None => window.end(usual),
            };
        }
        now + match &self.link {
            Some(link) if link.unanswered > 1 && !is_overloaded => RETRY_INTERVAL,
            Some(_) => LINK_INTERVAL,
            None if is_shared => LINK_INTERVAL,
            None => now.saturating_sub(self.up_since).clamp(FIRST_EDGE_INTERVAL, EDGE_INTERVAL),
        }
    }

    /// Returns its record. `role` is what it is used for if it belongs to a segment.
    pub(super) fn record(&self, at: Endpoint, role: Option<Role>, now: Duration) -> PortRecord {
        // A port of a segment that is no edge and has no link counts as not used. The used one must never look like that, also
        // while its window lasts or while it receives no floods.
        let is_edge = self.is_edge(now);
        let (edge, shared) = match role {
            None => (is_edge, false),
            Some(Role::Open) => (is_edge, is_edge),
            Some(Role::Blocked) => (false, self.window.is_none()),
            Some(Role::Bridge { has_hosts, .. }) => (has_hosts && self.is_live(now), true),
        };
        PortRecord {
            at,
            hw_addr: self.hw_addr,
            speed_kbps: self.speed_kbps,
            name: self.name,
            live: self.is_live(now),
            // Nobody can plug a cable into the switch's own port.
            edge: edge || (at.port == PortNo::LOCAL && self.is_up),
            link: self.has_link() || matches!(role, Some(Role::Bridge { .. })),
            shared,
        }
    }

    pub(super) fn speed_kbps(&self) -> u64 {
        self.speed_kbps
    }
}

impl Link {
    pub(super) fn new(to: Endpoint, now: Duration) -> Self {
        Self {
            to,
            found: now,
            latency: Samples::default(),
            shown_latency: Duration::ZERO,
            suspicious: false,
            contrary: 0,
            last_seen: now,
            judged: now,
            unanswered: 0,
        }
    }
}
