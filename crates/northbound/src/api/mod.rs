//! The handlers of `/api/v1`, a file per subject.

mod accounts;
mod apps;
mod changes;
mod config;
mod flow_writes;
mod flows;
mod health;
mod history;
mod incidents;
mod logs;
mod packages;
mod programs;
mod session;
mod sessions;
mod switches;
mod tokens;
mod topology;
mod trace;

pub(crate) use self::apps::Level;
pub(crate) use self::changes::Confirmation;
pub(crate) use self::config::{Checked, Mistake};
pub(crate) use self::health::{Live, Ready, routes as livez_and_readyz};
pub(crate) use self::session::{Login, NewSession, Who};
pub(crate) use self::sessions::Reserve;
pub(crate) use self::tokens::Token;
pub(crate) use self::topology::Drained;
use crate::route::Routes;
use crate::{events, metrics, openapi, ui};

/// All routes of the API's listeners.
pub(crate) fn routes() -> Routes {
    let lists = [
        health::routes(),
        session::routes(),
        programs::routes(),
        switches::routes(),
        flows::routes(),
        flow_writes::routes(),
        topology::routes(),
        trace::routes(),
        apps::routes(),
        sessions::routes(),
        accounts::routes(),
        incidents::routes(),
        logs::routes(),
        history::routes(),
        changes::routes(),
        config::routes(),
        packages::routes(),
        tokens::routes(),
        events::routes(),
        metrics::routes(),
        openapi::routes(),
        ui::routes(),
    ];
    Routes::new(lists.into_iter().flatten().collect())
}
