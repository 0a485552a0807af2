//! Ryu's REST interface at a port of its own: the paths and the JSON of `ofctl_rest` and `rest_topology` of Ryu 4.34.
//!
//! It knows no tokens, therefore it listens only on loopback, and every user of this machine can use it. Two checks keep web pages
//! out: the Host header must name this machine, and a page of another origin is refused. Writes go to the app `ofctl`, which owns
//! them.
//!
//! | file | purpose |
//! | --- | --- |
//! | `stats.rs` | `/stats/...` |
//! | `topology.rs` | `/v1.0/topology/...` |

mod stats;
mod topology;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use control::northbound::OfctlRest;
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use view::client::ClientError;

use crate::guard::{self, LocalUser};
use crate::limits;
use crate::route::segments;
use crate::state::Api;

/// Why a request was not answered as wished: the status that Ryu answers with, and the reason.
#[derive(Debug)]
pub(crate) struct Fault(StatusCode, String);

impl Fault {
    fn invalid(why: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, why.into())
    }

    fn not_found(why: impl Into<String>) -> Self {
        Self(StatusCode::NOT_FOUND, why.into())
    }
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl From<::ofctl::OfctlError> for Fault {
    fn from(error: ::ofctl::OfctlError) -> Self {
        let status = match error {
            ::ofctl::OfctlError::Invalid(_) => StatusCode::BAD_REQUEST,
            ::ofctl::OfctlError::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
            ::ofctl::OfctlError::Reply(_) => StatusCode::BAD_GATEWAY,
        };
        Self(status, error.to_string())
    }
}

/// The form of an answer: JSON, or nothing for a change.
type Outcome = Result<Option<Value>, Fault>;

/// A request after it was admitted.
#[derive(Debug)]
struct Wish {
    /// The user of this machine who sends it, for the audit record of a change.
    user: String,
    method: String,
    path: Vec<String>,
    body: Value,
    may_write: bool,
}

/// Handles an admitted request of this local user.
pub(crate) async fn serve(api: Arc<Api>, from: guard::From, request: Request) -> Response {
    let outcome = match read(&api, &from, request).await {
        Err(fault) => Err(fault),
        Ok(wish) => api
            .wait(move |api| Ok::<_, ClientError>(handle(api, &wish)))
            .await
            .unwrap_or_else(|problem| Err(Fault(problem.status(), "too many requests".into()))),
    };
    match outcome {
        Ok(Some(value)) => answer(StatusCode::OK, "application/json", value.to_string()),
        Ok(None) => answer(StatusCode::OK, "text/html; charset=UTF-8", String::new()),
        Err(Fault(status, why)) => answer(status, "text/plain; charset=UTF-8", why + "\n"),
    }
}

fn answer(status: StatusCode, media: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

async fn read(api: &Api, from: &guard::From, request: Request) -> Result<Wish, Fault> {
    let method = request.method().as_str().to_owned();
    let path = segments(request.uri().path()).map_err(Fault::invalid)?;
    let body = Limited::new(request.into_body(), limits::BODY).collect();
    let body = tokio::time::timeout(limits::REQUEST_TIME, body).await;
    let body = body.map_err(|_| Fault(StatusCode::REQUEST_TIMEOUT, "the body is late".into()))?;
    let body = body.map_err(|error| Fault::invalid(error.to_string()))?.to_bytes();
    // Ryu's clients send any Content-Type.
    let body = if body.iter().all(u8::is_ascii_whitespace) {
        Value::Null
    } else {
        serde_json::from_slice(&body).map_err(|error| Fault::invalid(error.to_string()))?
    };
    // After the body, which may take long: the audit record names the user who waits for the change.
    let changes = !matches!(method.as_str(), "GET" | "HEAD");
    let user = match changes.then(|| guard::local_user(api, from)) {
        Some(LocalUser::Known(uid)) => format!("user {uid}"),
        // A change without a name would escape the audit record.
        Some(LocalUser::Ended) => {
            let why = "the connection has ended; keep it open until the answer has arrived";
            return Err(Fault(StatusCode::UNAUTHORIZED, why.into()));
        }
        Some(LocalUser::Untold) | None => "an unknown local user".into(),
    };
    Ok(Wish { user, method, path, body, may_write: api.settings.ofctl == OfctlRest::Write })
}

/// Handles a request. For blocking threads.
fn handle(api: &Api, wish: &Wish) -> Outcome {
    let path: Vec<&str> = wish.path.iter().map(String::as_str).collect();
    match (wish.method.as_str(), &path[..]) {
        ("GET" | "HEAD", ["v1.0", "topology", what]) => topology::json(api, what, None).map(Some),
        ("GET" | "HEAD", ["v1.0", "topology", what, dpid]) => {
            let digits = dpid.len() == 16 && dpid.bytes().all(|it| it.is_ascii_hexdigit());
            let dpid = u64::from_str_radix(dpid, 16).ok().filter(|_| digits);
            let dpid =
                dpid.ok_or_else(|| Fault::not_found("the switch has 16 hexadecimal digits"))?;
            topology::json(api, what, Some(dpid)).map(Some)
        }
        ("GET" | "HEAD", ["stats", "switches"]) => stats::switches(api).map(Some),
        ("GET" | "HEAD", ["stats", what, dpid, arguments @ ..]) => {
            stats::read(api, what, dpid, (arguments, &wish.body)).map(Some)
        }
        ("POST", ["stats", what @ ("flow" | "flowdesc" | "aggregateflow"), dpid]) => {
            stats::read(api, what, dpid, (&[], &wish.body)).map(Some)
        }
        ("POST" | "DELETE", ["stats", ..]) if !wish.may_write => {
            let why = "this interface may only read; ofctl-rest = \"write\" in [northbound] allows changes";
            Err(Fault(StatusCode::FORBIDDEN, why.into()))
        }
        ("POST", ["stats", what, command]) => {
            stats::write(api, &wish.user, (what, command), &wish.body).map(|()| None)
        }
        ("DELETE", ["stats", "flowentry", "clear", dpid]) => {
            stats::clear(api, &wish.user, dpid).map(|()| None)
        }
        ("POST", ["stats", "role"]) => {
            let why = "the roles of the connection belong to Rosemary";
            Err(Fault(StatusCode::NOT_IMPLEMENTED, why.into()))
        }
        _ => Err(Fault::not_found("Ryu's REST interface has no such path")),
    }
}

#[cfg(test)]
mod tests {
    use control::northbound::{Credentials, ListenerRole, NorthboundSettings};
    use rustix::net::netlink::SOCK_DIAG;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    use sys::channel::Channel;
    use view::client::Monitor;

    use super::*;
    use crate::accept::AppOfConnection;
    use crate::auth::peer::Peers;
    use crate::route::Routes;
    use crate::state::Parts;

    #[test]
    fn change_of_a_closed_client_is_refused() {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::DGRAM;
        let diag = socket_with(AddressFamily::NETLINK, kind, flags, Some(SOCK_DIAG)).unwrap();
        let parts = Parts {
            monitor: Monitor::over(Channel::pair().unwrap().0),
            settings: NorthboundSettings::default(),
            credentials: Credentials::default(),
            peers: Some(Peers::new(diag)),
            orders: tokio::sync::mpsc::channel(1).0,
        };
        let api = Api::new(parts, Routes::new(Vec::new()));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let stream = std::net::TcpStream::connect(server).unwrap();
        let (_accepted, client) = listener.accept().unwrap();
        let from = guard::From::Tcp {
            role: ListenerRole::Ofctl,
            client,
            server,
            peer: guard::local_peer(&api, client, server),
            app: AppOfConnection::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let send = |method: &str| {
            let request = Request::builder().method(method).uri("/stats/flowentry/add");
            runtime.block_on(read(&api, &from, request.body(Body::empty()).unwrap()))
        };
        let own = format!("user {}", rustix::process::geteuid().as_raw());
        assert_eq!(send("POST").unwrap().user, own);
        drop(stream);
        assert_eq!(send("POST").unwrap_err().0, StatusCode::UNAUTHORIZED);
        assert!(send("GET").is_ok(), "reads have no audit record");
    }
}
