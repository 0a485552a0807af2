//! Requests the fill level of flow tables, and logs which tables are nearly full ([`occupancy`](crate::flows::occupancy)).

use std::time::Instant;

use dal::Table;
use openflow::MultipartReply;
use tracing::{info, warn};

use crate::connection::Connection;
use crate::dispatch::Dispatch;
use crate::flows::occupancy::{Change, count};
use crate::ids::AppSlot;
use crate::outcomes::Purpose;
use crate::switch::Switch;
use crate::transactions::By;
use crate::worker::answers::Replies;
use crate::worker::own_messages::request;
use control::app::AppId;
use control::query::Fullest;

impl Replies<'_> {
    /// Applies a switch's report about its tables.
    pub(in crate::worker) fn tables(&mut self, tables: Vec<Table>) {
        let Some(switch) = self.connection.switch_mut() else { return };
        for (table, change) in switch.tables(tables) {
            let known = switch.tables.get(&table);
            let flows = known.and_then(|it| it.active_count);
            let size = known.and_then(|it| it.max_entries);
            let Switch { dpid, .. } = switch;
            match change {
                Change::NearlyFull { most } => {
                    let most = most.and_then(|slot| self.dispatch.app_ports.get(slot.index()));
                    let app = most.map(|app_port| app_port.name.as_str());
                    warn!(
                        %dpid, table, flows, size, app,
                        "a flow table is nearly full; `rosemary flows` shows the owners of its flows"
                    );
                }
                Change::RoomAgain => {
                    info!(%dpid, table, flows, size, "a flow table has room again");
                }
            }
        }
    }

    /// Applies a part of the reply with the number of an app's flows in the switch.
    pub(in crate::worker) fn counted(&mut self, app: AppId, message: &[u8]) {
        let slot = self.dispatch.app_ports.iter().position(|app_port| app_port.app == app);
        if let (Some(switch), Some(slot)) = (self.connection.switch_mut(), slot)
            && let Ok(part) = MultipartReply::decode(message)
        {
            switch.occupancy.counted(AppSlot::new(slot), app, &part);
            if !part.more {
                switch.outcomes.done(Purpose::Count);
            }
        }
    }
}

/// Returns the fullest table of a switch, and the app that adds most to it if it is nearly full.
pub(in crate::worker) fn fullest(switch: &Switch, dispatch: &Dispatch) -> Option<Fullest> {
    let (table, flows, size) = switch.fullest()?;
    let full = switch.occupancy.nearly_full().find(|(it, _)| *it == table);
    let most = full.and_then(|(_, slot)| dispatch.app_ports.get(slot?.index()));
    let app = most.map(|app_port| app_port.name.clone());
    Some(Fullest { table, flows, size, nearly_full: full.is_some(), app })
}

/// Requests the number of flows of an app with a quota from the switch, if that is due. The app adds `adds` flows now,
/// or they were refused.
pub(in crate::worker) fn count_flows(
    connection: &mut Connection,
    (slot, app): (AppSlot, AppId),
    (most, adds): (u32, u32),
    now: Instant,
) {
    let Some(switch) = connection.switch_mut() else { return };
    if most == u32::MAX || !switch.occupancy.is_count_due(slot, most, adds, now) {
        return;
    }
    let wanted = count(switch.version, app);
    request(connection, By::Kernel(app), &wanted, now);
}

/// Requests the fill level of a switch's tables, if that is due.
pub(in crate::worker) fn request_tables(connection: &mut Connection, now: Instant) {
    let Some(switch) = connection.switch_mut() else { return };
    if switch.occupancy.is_due(now) {
        connection.session.request_tables(&mut connection.out);
    }
}
