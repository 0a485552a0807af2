//! Messages between the monitor and a service, by the names they had before.

pub use control::service::{
    ClientRights as Rights, Destination as Host, LogRight, Namespace, ServiceClient as Client,
    ServiceQuotas as Quotas, ServiceReply as Answer, ServiceRequest as Request,
    ServiceSandbox as Wall,
};
