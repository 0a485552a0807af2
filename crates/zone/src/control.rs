//! Messages between the monitor and a zone, by the names they had before.

pub use control::zone::{
    SwitchNumbers as Numbers, ZoneReply as Answer, ZoneRequest as Request, ZoneSandbox as Wall,
};
