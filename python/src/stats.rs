//! The client of the service `stats`: counters and rates of switches and ports.

use pyo3::prelude::*;
use sdk::services::Service;
use sdk::services::stats::{self as raw, Quality};
use sdk::{Dpid, PortNo};

use crate::services::unavailable;
use crate::zone::Zone;

/// Makes the class of a record, whose figures are `None` if they are not known.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[pyclass(frozen, get_all, eq, module = "rosemary")]
        #[derive(Debug, PartialEq, Eq)]
        pub(crate) struct $name {
            /// The switch.
            dpid: u64,
            /// The switch did not answer the last polls: the counters are old, and there are no rates.
            is_stale: bool,
            /// The last answer contradicts the one before: there are no rates.
            is_implausible: bool,
            $($(#[$field_doc])* $field: $type,)*
        }

        #[pymethods]
        impl $name {
            /// Makes one for a test of an app.
            #[new]
            #[pyo3(signature = (*, dpid, is_stale = false, is_implausible = false, $($field),*))]
            #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python, for tests of apps")]
            fn new(dpid: u64, is_stale: bool, is_implausible: bool, $($field: $type),*) -> Self {
                Self { dpid, is_stale, is_implausible, $($field),* }
            }

            fn __repr__(&self) -> String {
                format!("{}(dpid={:#x})", stringify!($name), self.dpid)
            }
        }
    };
}

record! {
    /// Sums of a switch's flows.
    SwitchStats {
        /// Number of flows, of all apps.
        flows: Option<u32>,
        /// Packets that matched present flows.
        packets: Option<u64>,
        /// Bytes of these packets.
        bytes: Option<u64>,
        /// Polls in sequence that the switch did not answer.
        unanswered: u32,
        /// Time from the last request to its answer, in microseconds.
        answer_us: Option<u64>,
        /// When the figures were read, in milliseconds of the monotonic clock.
        read_ms: u64,
    }
}
record! {
    /// Counters of a port.
    PortCounters {
        /// The port.
        port: u32,
        /// Packets received.
        rx_packets: Option<u64>,
        /// Packets sent.
        tx_packets: Option<u64>,
        /// Bytes received.
        rx_bytes: Option<u64>,
        /// Bytes sent.
        tx_bytes: Option<u64>,
        /// When the figures were read, in milliseconds of the monotonic clock.
        read_ms: u64,
    }
}
record! {
    /// Rates of a port between the last two polls, and its rarer counters.
    PortRates {
        /// The port.
        port: u32,
        /// Bits received per second.
        rx_bps: Option<u64>,
        /// Bits sent per second.
        tx_bps: Option<u64>,
        /// Packets received per second.
        rx_pps: Option<u32>,
        /// Packets sent per second.
        tx_pps: Option<u32>,
        /// Packets dropped on reception.
        rx_dropped: Option<u32>,
        /// Packets dropped on sending.
        tx_dropped: Option<u32>,
        /// Errors on reception.
        rx_errors: Option<u32>,
        /// Errors on sending.
        tx_errors: Option<u32>,
    }
}

/// Reads the table of the service `stats`, which the app names in its `services`.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Stats;

/// Reads with `find` from the table; raises `Unavailable` without the service.
fn read<T>(
    network: &Bound<'_, Zone>,
    find: impl FnOnce(&sdk::services::table::TableView<'_>) -> Option<T>,
) -> PyResult<Option<T>> {
    let found =
        network.get().with_network(|network| network.table(Service::Stats).map(|it| find(&it)))?;
    found.ok_or_else(|| unavailable("stats"))
}

#[pymethods]
impl Stats {
    #[new]
    fn new() -> Self {
        Self
    }

    /// Finds the sums of a switch's flows.
    #[expect(clippy::unused_self, reason = "as the clients of other services")]
    fn find_switch(&self, network: &Bound<'_, Zone>, dpid: u64) -> PyResult<Option<SwitchStats>> {
        let found = read(network, |table| raw::find_switch(table, Dpid(dpid)))?;
        Ok(found.map(|it| {
            let Quality { is_stale, is_implausible } = it.quality;
            SwitchStats {
                dpid,
                is_stale,
                is_implausible,
                flows: it.flows,
                packets: it.packets,
                bytes: it.bytes,
                unanswered: it.unanswered,
                answer_us: it.answer_us,
                read_ms: it.read_ms,
            }
        }))
    }

    /// Finds the counters of a port.
    #[expect(clippy::unused_self, reason = "as the clients of other services")]
    fn find_port(
        &self,
        network: &Bound<'_, Zone>,
        dpid: u64,
        port: u32,
    ) -> PyResult<Option<PortCounters>> {
        let found = read(network, |table| raw::find_port(table, Dpid(dpid), PortNo(port)))?;
        Ok(found.map(|it| {
            let Quality { is_stale, is_implausible } = it.quality;
            PortCounters {
                dpid,
                is_stale,
                is_implausible,
                port,
                rx_packets: it.rx_packets,
                tx_packets: it.tx_packets,
                rx_bytes: it.rx_bytes,
                tx_bytes: it.tx_bytes,
                read_ms: it.read_ms,
            }
        }))
    }

    /// Finds the rates of a port.
    #[expect(clippy::unused_self, reason = "as the clients of other services")]
    fn find_rates(
        &self,
        network: &Bound<'_, Zone>,
        dpid: u64,
        port: u32,
    ) -> PyResult<Option<PortRates>> {
        let found = read(network, |table| raw::find_rates(table, Dpid(dpid), PortNo(port)))?;
        Ok(found.map(|it| {
            let Quality { is_stale, is_implausible } = it.quality;
            PortRates {
                dpid,
                is_stale,
                is_implausible,
                port,
                rx_bps: it.rx_bps,
                tx_bps: it.tx_bps,
                rx_pps: it.rx_pps,
                tx_pps: it.tx_pps,
                rx_dropped: it.rx_dropped,
                tx_dropped: it.tx_dropped,
                rx_errors: it.rx_errors,
                tx_errors: it.tx_errors,
            }
        }))
    }
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SwitchStats>()?;
    module.add_class::<PortCounters>()?;
    module.add_class::<PortRates>()?;
    module.add_class::<Stats>()
}
