//! Sends the kernel's own requests for flows, and acts on the replies. [`flows`](crate::flows) explains the purposes and decides
//! when.

pub(super) mod heal;
mod moved_bands;
pub(super) mod news;
pub(super) mod other_controllers;
pub(super) mod reading;
pub(super) mod table_usage;
