//! Lists all metrics.

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, and begins again at 0 when its program restarts.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts of durations in buckets.
    Histogram,
}

impl MetricKind {
    /// Its name in the text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: MetricKind,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
}

macro_rules! metrics {
    ($($id:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(crate) const $id: &Metric = &Metric {
            name: $name,
            kind: MetricKind::$kind,
            help: $help,
            labels: &[$($label),*],
        };)*

        /// All metrics, in the order of the text.
        pub const METRICS: &[&Metric] = &[$($id),*];
    };
}

metrics! {
    BUILD = Gauge "rosemary_build_info" ["version"] "The version of Rosemary that runs; always 1.";
    UPTIME = Gauge "rosemary_uptime_seconds" [] "Time since Rosemary was started.";
    SOURCE = Gauge "rosemary_source_up" ["source"] "Whether this program answered when the metrics were read: monitor or kernel.";
    CONFIG = Gauge "rosemary_config_info" ["sha256"] "The SHA-256 of the configuration file that is in force; always 1.";
    CONFIG_REJECTED = Gauge "rosemary_config_rejected" [] "Whether the last reload of the configuration was refused.";
    SAFE_MODE = Gauge "rosemary_safe_mode" [] "Whether Rosemary is in safe mode.";
    PROGRAM_UP = Gauge "rosemary_program_up" ["kind", "program"] "Whether the program runs and is ready.";
    PROGRAM_HELD = Gauge "rosemary_program_held" ["kind", "program"] "Whether the program is held until its files change or an operator starts it.";
    RESTARTS = Counter "rosemary_program_restarts_total" ["kind", "program"] "How often the program was restarted.";
    LIMIT_USE = Gauge "rosemary_limit_use" ["kind", "program", "limit"] "Use of a limited resource, in the unit of the limit.";
    LIMIT_SOFT = Gauge "rosemary_limit_soft" ["kind", "program", "limit"] "The soft limit, in the unit of the limit.";
    LIMIT_HARD = Gauge "rosemary_limit_hard" ["kind", "program", "limit"] "The hard limit, in the unit of the limit.";
    LIMIT_EXCEEDED = Gauge "rosemary_limit_exceeded" ["kind", "program", "limit"] "Whether the program exceeds the soft limit now.";
    INCIDENTS = Counter "rosemary_incidents_total" ["kind", "cause"] "Incidents, by the kind of the program and the cause.";
    INCIDENTS_OPEN = Gauge "rosemary_incidents_open" [] "Incidents that last.";
    INCIDENT_DURATION = Histogram "rosemary_incident_duration_seconds" [] "How long incidents lasted: the time until the program ran again.";
    SWITCHES = Gauge "rosemary_switches" ["version", "transport"] "Connected switches, by OpenFlow version and transport (tcp or the TLS version).";
    SWITCHES_OMITTED = Gauge "rosemary_switches_omitted" [] "Connected switches without series of their own, because there are too many.";
    SWITCH_PORTS = Gauge "rosemary_switch_ports" ["dpid"] "Ports of the switch.";
    SWITCH_FLOWS = Gauge "rosemary_switch_flows" ["dpid"] "Flows in all tables of the switch, as it reported last.";
    SWITCH_FILL = Gauge "rosemary_switch_table_fill_ratio" ["dpid", "table"] "Flows in the fullest table of the switch, relative to the size of the table.";
    SWITCH_MESSAGES = Counter "rosemary_switch_messages_total" ["dpid", "type"] "OpenFlow messages since the switch connected: packet_in and error from it, flow_mod and packet_out to it.";
    SWITCH_DROPPED = Counter "rosemary_switch_packet_ins_dropped_total" ["dpid", "reason"] "Packet-ins that were dropped because apps did not keep up (apps), or because a guard was silent or down (guard).";
    SWITCH_PAUSES = Counter "rosemary_switch_pauses_total" ["dpid"] "How often the kernel left the switch unread because apps did not keep up.";
    SWITCH_REFUSED = Counter "rosemary_switch_messages_refused_total" ["dpid"] "Messages of apps to the switch that the kernel refused.";
    SWITCH_MONITOR = Gauge "rosemary_switch_flow_monitor" ["dpid"] "Whether the switch reports each change of its flows, so that the kernel requests none.";
    SWITCH_REQUESTS = Counter "rosemary_switch_flow_requests_total" ["dpid", "reason"] "Requests for flows and tables of the switch since it connected, by their reason: to notice lost flows (heal), to find flows without an app (orphans), to count flows (count), to tell apps their flows (apps), after a priority band has moved (bands), to check the reports of the switch (check), lists that begin or renew these reports (monitor), for an operator (operator), and to describe the switch (description).";
    SWITCH_UNSENT = Gauge "rosemary_switch_unsent_bytes" ["dpid"] "Bytes that wait to be sent to the switch.";
    PORTS = Gauge "rosemary_ports" ["state"] "Ports of connected switches, by their state: up, or down.";
    LINKS = Gauge "rosemary_links" ["state"] "Links between switches, by their state: up, one_way, suspicious, or down, which are links that were there.";
    LINK_DOWN = Gauge "rosemary_link_down_seconds" ["dpid", "port", "to_dpid", "to_port", "reason"] "For how long this link is down, which was there.";
    LINKS_DOWN_OMITTED = Gauge "rosemary_links_down_omitted" [] "Links that are down and have no series of their own, because there are too many.";
    HOSTS = Gauge "rosemary_hosts" [] "Hosts whose place in the network is known.";
    SWITCH_HOSTS = Gauge "rosemary_switch_hosts" ["dpid"] "Hosts that are known at ports of the switch.";
    PORT_BYTES = Counter "rosemary_port_bytes_total" ["dpid", "port", "direction"] "Bytes that the port has received (rx) or sent (tx), as the switch reported last.";
    PORT_PACKETS = Counter "rosemary_port_packets_total" ["dpid", "port", "direction"] "Packets that the port has received (rx) or sent (tx), as the switch reported last.";
    PORTS_OMITTED = Gauge "rosemary_ports_omitted" [] "Ports whose counters are known and have no series of their own, because there are too many.";
    APP_PACKET_INS = Counter "rosemary_app_packet_ins_total" ["app"] "Packet-ins that the app received.";
    APP_DROPPED = Counter "rosemary_app_packet_ins_dropped_total" ["app"] "Packet-ins that were dropped for the app because it did not keep up or did not run.";
    APP_PASSED_OVER = Counter "rosemary_app_packet_ins_passed_over_total" ["app"] "Packet-ins that did not wait for the app because it answered too late.";
    APP_LATENCY = Histogram "rosemary_app_packet_in_duration_seconds" ["app"] "Time from the moment at which the kernel read a packet-in until the app had handled it, sampled: at most one batch of each app and worker at once.";
    APP_SKIPPED = Gauge "rosemary_app_skipped" ["app"] "Whether no packet waits for the app because it answers too late.";
    APP_MESSAGES = Counter "rosemary_app_messages_total" ["app", "type"] "Messages of the app that were sent to switches: flow_mod (with groups, meters, ports and tables), packet_out and request.";
    APP_REFUSED = Counter "rosemary_app_messages_refused_total" ["app"] "Messages of the app that the kernel refused.";
    APP_LOST = Counter "rosemary_app_replies_lost_total" ["app"] "Replies, errors and removed flows that did not reach the app.";
    APP_HANDLED = Counter "rosemary_app_records_handled_total" ["app"] "Records of its rings that the app has handled.";
    APP_WAITING = Gauge "rosemary_app_ring_records" ["app"] "Records in the rings of the app that it has not handled yet.";
    APP_QUEUED = Gauge "rosemary_app_queued_bytes" ["app"] "Bytes that are queued for the app, at the worker that has the most.";
    APP_UNSENT = Gauge "rosemary_app_unsent_bytes" ["app"] "Bytes of messages of the app that wait because switches do not take them at once.";
    APP_THROTTLED = Counter "rosemary_app_throttled_seconds_total" ["app"] "Seconds in which the kernel throttled the app for refused messages and needless doorbell rings.";
    KERNEL_QUERY = Histogram "rosemary_kernel_query_duration_seconds" [] "Time until all workers of the kernel answered a query, between two turns of their loops.";
}
