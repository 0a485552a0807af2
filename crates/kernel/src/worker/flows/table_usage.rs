//! Takes the fill level of flow tables from the image of a switch's flows, or requests it, and logs which tables are nearly full
//! ([`occupancy`](crate::flows::occupancy)).

use std::collections::BTreeMap;
use std::time::Instant;

use dal::Table;
use openflow::{MultipartReply, TableStatus, Vacancy};
use tracing::{info, warn};

use crate::connection::Connection;
use crate::dispatch::Dispatch;
use crate::flows::occupancy::{Change, count};
use crate::flows::reader::AbsentApps;
use crate::flows::requests::Reason;
use crate::ids::AppSlot;
use crate::outcomes::Purpose;
use crate::switch::Switch;
use crate::transactions::By;
use crate::worker::answers::Replies;
use crate::worker::flows::reading::foreign;
use crate::worker::own_messages::request;
use control::app::AppId;
use control::query::Fullest;

impl Replies<'_> {
    /// Applies a switch's report about its tables.
    pub(in crate::worker) fn tables(&mut self, tables: Vec<Table>) {
        if let Some(switch) = self.connection.switch_mut() {
            apply(switch, (tables, true), self.dispatch);
        }
    }

    /// Applies a switch's report that a table has more or less room than a limit.
    pub(in crate::worker) fn table_status(&mut self, status: TableStatus) {
        let Some(switch) = self.connection.switch_mut() else { return };
        let (table_id, vacancy) = (status.table.table_id, status.table.vacancy);
        let size = switch.tables.get(&table_id).and_then(|table| table.max_entries);
        if switch.watch.current().is_some() {
            return; // the number of flows is known
        }
        if let (Some(size), Some(vacancy)) = (size, vacancy) {
            let active_count = Some(flows_at(vacancy, size));
            let table = Table { table_id, max_entries: None, active_count };
            apply(switch, (vec![table], false), self.dispatch);
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

/// Estimates the number of flows in a table of this size from its room, which is in percent.
fn flows_at(vacancy: Vacancy, size: u32) -> u32 {
    let used = u64::from(100_u8.saturating_sub(vacancy.now));
    u32::try_from(u64::from(size) * used / 100).unwrap_or(u32::MAX)
}

/// Applies descriptions of tables, and logs which became nearly full or have room again.
fn apply(switch: &mut Switch, (tables, ages): (Vec<Table>, bool), dispatch: &Dispatch) {
    for (table, change) in switch.tables(tables, ages) {
        let known = switch.tables.get(&table);
        let flows = known.and_then(|it| it.active_count);
        let size = known.and_then(|it| it.max_entries);
        let Switch { dpid, .. } = switch;
        match change {
            Change::NearlyFull { most } => {
                let most = most.and_then(|slot| dispatch.app_ports.get(slot.index()));
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
    let is_known = switch.watch.current().is_some() || switch.watch.is_waiting();
    if most == u32::MAX || is_known || !switch.occupancy.is_count_due(slot, most, adds, now) {
        return;
    }
    let wanted = count(switch.version, app);
    request(connection, (By::Kernel(app), Some(Reason::Count)), &wanted, now);
}

/// Takes the fill level of a switch's tables from the image of its flows, or requests it if that is due.
pub(in crate::worker) fn update_tables(
    connection: &mut Connection,
    (dispatch, absent): (&Dispatch, &AbsentApps),
    now: Instant,
) {
    let Some(switch) = connection.switch_mut() else { return };
    if let Some(image) = switch.watch.current_mut() {
        if image.take_changed() {
            switch.flow_reader.foreign = foreign(image, &dispatch.app_ports, absent);
            // A table that was described and is not in the image has no flows.
            let mut counts: BTreeMap<u8, u32> = switch.tables.keys().map(|it| (*it, 0)).collect();
            counts.extend(image.tables());
            let table = |(table_id, count)| Table {
                table_id,
                max_entries: None,
                active_count: Some(count),
            };
            let ages = switch.occupancy.take_age(now);
            apply(switch, (counts.into_iter().map(table).collect(), ages), dispatch);
        }
        return;
    }
    if !switch.watch.is_waiting() && switch.occupancy.is_due(now) {
        switch.requests.count(Reason::Count);
        connection.session.request_tables(&mut connection.out);
    }
}
