//! The native module `rosemary._native` of the Python SDK.
//!
//! | module | content |
//! | --- | --- |
//! | [`start`] | confines the interpreter's process, with the code of `rosemary-zone` |
//! | [`zone`] | `Zone`: runs the app's handler, and sends its messages |
//! | [`guest`] | calls the handler with the records of a batch |
//! | [`events`] | the classes of events |
//! | [`http`] | HTTP requests to the app, and its answers |
//! | [`matching`], [`action`], [`flow`], [`meter`] | matches, actions, flow-mods, meters |
//! | [`changes`] | change sets, and their outcomes |
//! | [`nicira`] | the actions of Open vSwitch |
//! | [`services`] | events and exceptions of services, and how their clients use the zone |
//! | [`storage`], [`topology`], [`hosts`], [`stats`], [`broker`], [`apps`], [`ovsdb`] | the clients of services |
//! | [`drain`] | the answers to requests for drains of switches |
//! | [`wanted`] | flows, groups and meters that an app wants in its switches |
//! | [`packet`] | reads packets |
//! | [`codec`] | decodes and encodes any message, for tools and tests |
//!
//! No module has `unsafe`. `PyO3`'s macros generate some, which is why this crate denies it where others forbid it.

#![deny(unsafe_code)]
#![allow(
    clippy::needless_pass_by_value,
    clippy::struct_field_names,
    reason = "the arguments of Python's calls are values, and its attributes have the names of the specification"
)]

mod action;
mod apps;
mod broker;
mod changes;
mod codec;
mod drain;
mod events;
mod flow;
mod guest;
mod hosts;
mod http;
mod matching;
mod meter;
mod network;
mod nicira;
mod number;
mod ovsdb;
mod packet;
mod services;
mod start;
mod stats;
mod storage;
mod topology;
mod wanted;
mod zone;

use pyo3::prelude::*;

pyo3::create_exception!(
    _native,
    Full,
    pyo3::exceptions::PyException,
    "There is no room until the kernel has taken some of the earlier messages."
);

/// The native module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Full", module.py().get_type::<Full>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(start::start, module)?)?;
    zone::add(module)?;
    events::add(module)?;
    module.add_class::<matching::Match>()?;
    module.add_class::<action::Action>()?;
    module.add_class::<nicira::Nicira>()?;
    module.add_class::<flow::FlowMod>()?;
    module.add_class::<flow::Bucket>()?;
    meter::add(module)?;
    changes::add_classes(module)?;
    services::add(module)?;
    storage::add(module)?;
    broker::add(module)?;
    apps::add(module)?;
    ovsdb::add(module)?;
    topology::add(module)?;
    drain::add(module)?;
    hosts::add(module)?;
    stats::add(module)?;
    wanted::add(module)?;
    packet::add(module)?;
    codec::add(module)
}
