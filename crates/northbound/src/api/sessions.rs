//! Sessions: lists what is reserved, and changes reservations until the configuration is applied again.

use std::sync::Arc;

use control::change::Change;
use control::northbound::Role;
use control::session::SessionReport;
use serde::Deserialize;
use utoipa::ToSchema;
use view::client::Monitor;

use super::changes;
use crate::api::Confirmation;
use crate::call::Call;
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Route, Verb};
use crate::state::Api;

/// Keys of a session, as in the configuration. Missing ones stay as they are.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct Reserve {
    /// Microseconds of processor time per period; 0 for none.
    #[schema(maximum = 4_000_000)]
    runtime_us: Option<u64>,
    /// The period in microseconds.
    #[schema(maximum = 4_000_000)]
    period_us: Option<u64>,
    /// The number of virtual processors.
    #[schema(maximum = 64)]
    processors: Option<u64>,
    /// The weight for what other sessions leave.
    #[schema(maximum = 10_000)]
    extra: Option<u64>,
    /// Percent of all packet-ins.
    #[schema(maximum = 100)]
    packet_ins_percent: Option<u64>,
    /// Bytes per second from switches.
    received_bytes_per_second: Option<u64>,
    /// Bytes per second to switches.
    sent_bytes_per_second: Option<u64>,
    /// Packet-outs per second.
    packet_outs_per_second: Option<u64>,
    /// Bytes of rings.
    ring_bytes: Option<u64>,
    /// Bytes of memory.
    memory: Option<u64>,
    /// Bytes of the state directory's disk.
    storage: Option<u64>,
    /// Open descriptors.
    descriptors: Option<u64>,
}

impl Reserve {
    /// The keys that are set.
    fn values(&self) -> Vec<(String, u64)> {
        let all = [
            ("runtime-us", self.runtime_us),
            ("period-us", self.period_us),
            ("processors", self.processors),
            ("extra", self.extra),
            ("packet-ins-percent", self.packet_ins_percent),
            ("received-bytes-per-second", self.received_bytes_per_second),
            ("sent-bytes-per-second", self.sent_bytes_per_second),
            ("packet-outs-per-second", self.packet_outs_per_second),
            ("ring-bytes", self.ring_bytes),
            ("memory", self.memory),
            ("storage", self.storage),
            ("descriptors", self.descriptors),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }
}

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/sessions", "sessions", list)
            .about("Lists the sessions: what each reserves, and what holds it")
            .list("Session"),
        Route::get("/api/v1/sessions/{name}", "session", one)
            .about("Describes a session")
            .json("Session"),
        Route::new(Verb::Put, "/api/v1/sessions/{name}", "setSession", set)
            .role(Role::Admin)
            .about(
                "Changes what is reserved for a session, until the configuration is applied again",
            )
            .json_body("Reserve", true)
            .change(),
    ]
}

async fn list(api: Arc<Api>, call: Call) -> Answer {
    let sessions = api.monitor(Monitor::sessions).await?;
    reply::list(&call, &sessions)
}

/// The session that the path names.
async fn named(api: &Arc<Api>, call: &Call) -> Result<SessionReport, Problem> {
    let name = call.path("name");
    let session = api.monitor(Monitor::sessions).await?.into_iter().find(|it| it.name == name);
    session.ok_or_else(|| {
        let name: String = name.chars().take(64).collect();
        let hint = "GET /api/v1/sessions lists the sessions";
        Problem::not_found(format!("there is no session {name:?}"), hint)
    })
}

async fn one(api: Arc<Api>, call: Call) -> Answer {
    reply::json(&call, &named(&api, &call).await?)
}

async fn set(api: Arc<Api>, call: Call) -> Answer {
    let reserve: Reserve = call.json().await?;
    let session = named(&api, &call).await?.name;
    let change = Change::Session { session, values: reserve.values() };
    changes::make(&api, &call, change, Confirmation::default()).await
}

#[cfg(test)]
mod tests {
    use control::session::SESSION_KEYS;

    use super::*;

    #[test]
    fn body_has_every_key() {
        let all = SESSION_KEYS.map(|key| format!("\"{key}\": 7,")).concat();
        let body = format!("{{{}}}", all.trim_end_matches(','));
        let reserve: Reserve = serde_json::from_str(&body).unwrap();
        let keys: Vec<String> = reserve.values().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, SESSION_KEYS);
        assert!(serde_json::from_str::<Reserve>("{\"cpu\": 1}").is_err());
        assert!(Reserve::default().values().is_empty());
    }
}
