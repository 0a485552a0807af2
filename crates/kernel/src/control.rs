//! Messages between the monitor and the kernel, by the names they had before.

pub use control::app::{AppId, Hosting as Host};
pub use control::kernel::{
    AppSpec as App, KernelReply as Answer, KernelRequest as Request, PlainTcp as Plain, Tuning,
    worker_name,
};
