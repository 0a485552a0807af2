//! A folder per southbound protocol, each with an implementation of [`Driver`](crate::Driver) and
//! [`Session`](crate::Session), and the table of all.

use ::openflow::OfferedVersions;
use names::Southbound;

use crate::session::Driver;

pub mod hardware_vtep;
pub mod openflow;

/// Returns the driver of a protocol. Sessions of OpenFlow offer `versions`.
pub fn driver_of(protocol: Southbound, versions: OfferedVersions) -> Box<dyn Driver> {
    match protocol {
        Southbound::OpenFlow => Box::new(openflow::OpenFlow { versions }),
        Southbound::HardwareVtep => Box::new(hardware_vtep::HardwareVtep::default()),
    }
}
