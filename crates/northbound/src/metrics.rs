//! `/metrics`: the answers of monitor and kernel as the text that Prometheus reads.
//!
//! The text is made at most once per [`FRESH`], so that many readers cost the kernel no more than one.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::metrics::{CONTENT_TYPE, Histogram, IncidentCounts, Snapshot};
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use view::client::{ClientError, Kernel, Monitor};

use crate::api::livez_and_readyz;
use crate::call::Call;
use crate::route::{Answer, Content, Route, Routes};
use crate::state::{Api, lock};

/// How long a text is used again.
const FRESH: Duration = Duration::from_secs(1);

/// The state that the metrics keep between two readings.
#[derive(Debug)]
pub(crate) struct Metrics(Mutex<Memory>);

#[derive(Debug)]
struct Memory {
    incidents: IncidentCounts,
    kernel_queries: Histogram,
    last: Option<(Instant, String)>,
}

impl Default for Metrics {
    fn default() -> Self {
        let kernel_queries = Histogram::new(Histogram::ANSWERS);
        Self(Mutex::new(Memory {
            incidents: IncidentCounts::default(),
            kernel_queries,
            last: None,
        }))
    }
}

/// The route at the address of the API, and at the address for metrics.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/metrics", "metrics", read)
            .about("Returns the metrics in the text format of Prometheus")
            .answer(200, Content::Other("text/plain"), "The metrics; docs/metrics.md explains them")
            .problems(&[503]),
    ]
}

/// All routes at the address for metrics.
pub(crate) fn own_routes() -> Routes {
    Routes::new(routes().into_iter().chain(livez_and_readyz()).collect())
}

async fn read(api: Arc<Api>, _call: Call) -> Answer {
    let text = api.wait(|api| Ok::<_, ClientError>(text(api))).await?;
    let mut response = Response::new(Body::from(text));
    let media = HeaderValue::from_static(CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    Ok(response)
}

/// Makes the text, or returns the last one. For blocking threads; one at a time asks.
fn text(api: &Api) -> String {
    let mut memory = lock(&api.metrics.0);
    if let Some((at, text)) = &memory.last
        && at.elapsed() < FRESH
    {
        return text.clone();
    }
    let status = api.ask_monitor(Monitor::status).ok();
    let usage = api.ask_monitor(Monitor::usage).unwrap_or_default();
    let accounts = api.ask_monitor(|monitor| monitor.accounts(0));
    let accounts = accounts.map(|it| it.accounts).unwrap_or_default();
    let from = memory.incidents.from();
    if let Ok(incidents) = api.ask_monitor(|monitor| monitor.incidents(from)) {
        memory.incidents.count(&incidents);
    }
    let config = api.ask_monitor(Monitor::config).ok();
    let began = Instant::now();
    let switches = api.ask_kernel(Kernel::switches);
    if switches.is_ok() {
        memory.kernel_queries.observe(began.elapsed());
    }
    let apps = api.ask_kernel(Kernel::apps);
    let kernel = switches.ok().zip(apps.ok());
    let version = status.as_ref().map_or(env!("CARGO_PKG_VERSION"), |status| &status.version);
    let text = ::metrics::text(&Snapshot {
        version,
        status: status.as_ref(),
        usage: &usage,
        accounts: &accounts,
        network: &crate::network::read(api),
        kernel: kernel.as_ref().map(|(switches, apps)| (switches.as_slice(), apps.as_slice())),
        incidents: &memory.incidents,
        config: config.as_ref().map(|config| config.sha256.as_str()),
        kernel_queries: &memory.kernel_queries,
    });
    memory.last = Some((Instant::now(), text.clone()));
    text
}
