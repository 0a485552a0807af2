//! How full the switches' tables are: asked, and told to the operator ([`occupancy`](crate::occupancy)).

use std::time::Instant;

use dal::drivers::openflow::Table;
use openflow::MultipartReply;
use tracing::{info, warn};

use super::Worker;
use crate::check::Expects;
use crate::connection::Connection;
use crate::control::AppId;
use crate::ids::ConnId;
use crate::occupancy::{Change, count};
use crate::query::Fullest;
use crate::switch::Switch;

impl Worker {
    /// A switch has told of its tables.
    pub(super) fn tables_told(&mut self, key: ConnId, tables: Vec<Table>) {
        let Some(switch) = self.connections[key.0].switch_mut() else { return };
        for (table, change) in switch.tables(tables) {
            let known = switch.tables.get(&table);
            let flows = known.and_then(|it| it.active_count);
            let size = known.and_then(|it| it.max_entries);
            let Switch { dpid, .. } = switch;
            match change {
                Change::NearlyFull { most } => {
                    let most = most.and_then(|slot| self.dispatch.app_ports.get(slot));
                    let app = most.map(|app_port| app_port.name.as_str());
                    warn!(
                        %dpid, table, flows, size, app,
                        "a flow table is nearly full; `rosemary flows` shows whose the flows are"
                    );
                }
                Change::RoomAgain => {
                    info!(%dpid, table, flows, size, "a flow table has room again");
                }
            }
        }
    }

    /// A part of the answer to how many flows an app has in a switch.
    pub(super) fn counted(&mut self, key: ConnId, app: AppId, message: &[u8]) {
        let slot = self.dispatch.app_ports.iter().position(|app_port| app_port.app == app);
        if let (Some(switch), Some(slot)) = (self.connections[key.0].switch_mut(), slot)
            && let Ok(part) = MultipartReply::decode(message)
        {
            switch.occupancy.counted(slot, app, &part);
        }
    }

    /// The table of a switch that is fullest, with who adds most to it if it is nearly full.
    pub(super) fn fullest(&self, switch: &Switch) -> Option<Fullest> {
        let (table, flows, size) = switch.fullest()?;
        let full = switch.occupancy.nearly_full().find(|(it, _)| *it == table);
        let most = full.and_then(|(_, slot)| self.dispatch.app_ports.get(slot?));
        let app = most.map(|app_port| app_port.name.clone());
        Some(Fullest { table, flows, size, nearly_full: full.is_some(), app })
    }
}

/// An app with a quota adds so many flows, or is kept from it: asks the switch for its number if that is due.
pub(super) fn count_flows(
    connection: &mut Connection,
    (slot, app): (usize, AppId),
    (most, adds): (u32, u32),
    now: Instant,
) {
    let Some(switch) = connection.switch_mut() else { return };
    if most == u32::MAX || !switch.occupancy.is_count_due(slot, most, adds, now) {
        return;
    }
    let (version, xid, at) = (switch.version, connection.session.xid(), connection.out.len());
    openflow::append(&mut connection.out, |out| count(version, app).encode(version, xid, out))
        .expect("every version can say it");
    let expects = connection.out.get(at..).and_then(Expects::multipart).expect("it is one");
    if let Some(up) = connection.phase.up_mut() {
        up.transactions.kernel_asks(xid, app, expects, now);
    }
}

/// Asks a switch for its tables, if that is due.
pub(super) fn ask_tables(connection: &mut Connection, now: Instant) {
    let Some(switch) = connection.switch_mut() else { return };
    if switch.occupancy.is_due(now) {
        connection.session.ask_tables(&mut connection.out);
    }
}
