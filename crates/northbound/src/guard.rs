//! Decides about every request before anything of it is used: is it meant for this machine, who sent it, may that user do this.
//!
//! ```text
//! rate -> Host -> Origin -> who (401) -> role (403) -> path (404), method (405) -> parameters (400) -> body (415, 413) -> handler
//! ```
//!
//! * **Host** (DNS rebinding): a page whose name an attacker points to this machine sends that name. Addresses, `localhost` and the names
//!   in `[northbound]` are accepted.
//! * **Origin** (cross-site request forgery): a browser states the page's origin with each request that changes something. It must be the
//!   one that the request itself goes to. `Sec-Fetch-Site` says the same of requests without `Origin`.
//! * No cookies exist. The only thing that a browser adds by itself and that identifies a user is a client certificate, so over TLS the
//!   origin must be one over TLS too.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use control::northbound::{ListenerRole, Loopback, Role};

use crate::accept::AppOfConnection;
use crate::app_routes;
use crate::auth::peer::Peer;
use crate::auth::session::Sessions;
use crate::auth::standing::Standing;
use crate::auth::{How, Principal, tokens};
use crate::call::{Call, Confirm};
use crate::limits::{self, Payer};
use crate::ofctl;
use crate::problem::Problem;
use crate::route::{Access, Answer, Found, segments};
use crate::state::{Api, lock};
use crate::tls::Certificate;

/// How a connection reached this process.
#[derive(Debug, Clone)]
pub(crate) enum From {
    /// Over TLS, to the API. It tells nothing about the user of a local connection.
    Tls {
        /// The client's end.
        client: SocketAddr,
        /// The certificate that the client has shown.
        certificate: Option<Arc<Certificate>>,
    },
    /// Over TCP.
    Tcp {
        /// Its purpose.
        role: ListenerRole,
        /// The client's end.
        client: SocketAddr,
        /// This end.
        server: SocketAddr,
        /// The client's socket when the connection was accepted; `None` if it is not known, or on another machine.
        peer: Option<Peer>,
        /// The app for whose routes it is counted.
        app: AppOfConnection,
    },
    /// Over the Unix socket, whose mode admits root, Rosemary's user and the group `rosemary`.
    Unix {
        /// The user who connected, as the system says; `None` if it does not say.
        uid: Option<u32>,
    },
}

impl From {
    /// Who pays for a request to this path.
    fn payer(&self, api: &Api, path: &str) -> Payer {
        match self {
            Self::Tcp { role: ListenerRole::Apps, .. } => api.app_routes.payer(path),
            Self::Tcp { client, server, peer, .. } if is_local(*client, *server) => {
                Payer::User(peer.map(|peer| peer.uid))
            }
            Self::Tcp { client, .. } | Self::Tls { client, .. } => {
                Payer::Source(limits::source(client.ip()))
            }
            Self::Unix { .. } => Payer::Unix,
        }
    }
}

/// The users of Rosemary's own programs, apps and services among them (`monitor/src/users.rs`). The broker connects for apps.
const PROGRAMS: std::ops::Range<u32> = 0x7000_0000..0x7001_0100;

/// Handles a request of a connection.
pub(crate) async fn serve(api: Arc<Api>, from: From, request: Request) -> Response {
    let is_head = request.method() == "HEAD";
    let mut response = match admit(&api, from, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    secure(response.headers_mut());
    if is_head {
        *response.body_mut() = axum::body::Body::empty();
    }
    response
}

async fn admit(api: &Arc<Api>, from: From, request: Request) -> Answer {
    let now = Instant::now();
    let payer = from.payer(api, request.uri().path());
    lock(&api.rates).admit(payer.clone(), now).map_err(|wait| {
        let seconds = wait.as_secs() + 1;
        let detail = match payer {
            Payer::App(_) => "the clients of this app send requests too fast",
            Payer::User(_) => "this user sends requests too fast",
            _ => "this address sends requests too fast",
        };
        let problem = Problem::too_many(detail, format!("try again in {seconds} s"));
        problem.header(header::RETRY_AFTER, &seconds.to_string())
    })?;
    if !matches!(from, From::Unix { .. }) {
        check_host(request.headers(), request.uri().host(), &api.settings.names)?;
    }
    check_origin(&request, matches!(from, From::Tls { .. }))?;
    let routes = match from {
        // Neither knows users.
        From::Tcp { role: ListenerRole::Ofctl | ListenerRole::Apps, client, server, .. }
            if !is_local(client, server) =>
        {
            let hint = "send it from this machine; /api/v1 serves others, with a token";
            return Err(Problem::forbidden("this address serves this machine alone", hint));
        }
        From::Tcp { role: ListenerRole::Ofctl, .. } => {
            return Ok(ofctl::serve(api.clone(), from, request).await);
        }
        From::Tcp { role: ListenerRole::Apps, ref app, .. } => {
            if let Payer::App(name) = &payer
                && !app.count_for(name)
            {
                return Err(app_routes::too_many_connections(name));
            }
            return Ok(app_routes::serve(api.clone(), request).await);
        }
        From::Tcp { role: ListenerRole::Metrics, .. } => &api.metrics_routes,
        _ => &api.routes,
    };
    api.catch_up().await?;
    let principal = principal(api, &from, request.headers()).inspect_err(|_| {
        lock(&api.rates).failed(payer, now);
    })?;
    let found = segments(request.uri().path());
    let found = found.as_ref().map(|them| routes.find(request.method().as_str(), them));
    // A path that does not exist is no secret of less value than one that does: both need a reader.
    let access = match &found {
        Ok(Found::Route(route, _)) => route.access,
        _ => Access::Role(Role::Viewer),
    };
    if let Access::Role(role) = access {
        check_role(&principal, role)?;
    }
    let (route, path) = match found {
        Ok(Found::Route(route, path)) => (route, path),
        Ok(Found::OtherMethods(methods)) => {
            let methods = methods.join(", ");
            let problem = Problem::method(
                format!("{} is not a method of this path", request.method()),
                format!("the methods are: {methods}"),
            );
            return Err(problem.header(header::ALLOW, &methods));
        }
        Ok(Found::Nothing) => {
            return Err(Problem::not_found(
                "there is nothing at this path",
                "see /api/v1/openapi.json for all paths",
            ));
        }
        Err(why) => return Err(Problem::invalid(*why, "see /api/v1/openapi.json for all paths")),
    };
    let changes = !matches!(request.method().as_str(), "GET" | "HEAD");
    let call = Call::new((principal, from), route, path, request)?;
    let call = if changes { confirmed(api, call) } else { call };
    let answer = (route.handler)(api.clone(), call);
    match route.time {
        None => answer.await,
        Some(time) => tokio::time::timeout(time, answer).await.unwrap_or_else(|_| {
            let detail = format!("the request took longer than {} s", time.as_secs());
            Err(Problem::slow(detail, "send the body faster, or ask for less"))
        }),
    }
}

/// Has a call on behalf of a local user check after its body that the sender is still the same: the body may take long, and a closed
/// socket may have become another user's.
fn confirmed(api: &Arc<Api>, call: Call) -> Call {
    if call.principal.how != How::Loopback {
        return call;
    }
    let (api, from) = (api.clone(), call.from.clone());
    let (headers, admitted) = (call.headers().clone(), call.principal.clone());
    call.confirmed_by(Confirm(Box::new(move || {
        if principal(&api, &from, &headers)? == admitted {
            return Ok(());
        }
        let hint = "keep the connection open until the answer has arrived";
        Err(Problem::unauthorized("the connection has ended", hint))
    })))
}

/// Watches over the sender of a call that lasts: whether what it was admitted by still gives it `role`.
pub(crate) fn standing(api: &Arc<Api>, call: &Call, role: Role) -> Standing {
    // To find the user of a local connection again costs a question to the system, for each stream at each change of a token.
    if !call.principal.how.may_end() {
        return Standing::lasting(api.watch_credentials());
    }
    let (asked, from, headers) = (api.clone(), call.from.clone(), call.headers().clone());
    let check = move || {
        let principal = principal(&asked, &from, &headers).ok()?;
        principal.has(role).then_some(principal.expires)
    };
    Standing::new(check, api.watch_credentials())
}

fn check_role(principal: &Principal, role: Role) -> Result<(), Problem> {
    if principal.has(role) {
        return Ok(());
    }
    let Some(own) = principal.role else {
        return Err(Problem::unauthorized(
            "this needs a token or a certificate",
            "make a token with `rosemary token create --role ROLE`, and send it as `Authorization: Bearer TOKEN`; over TLS, a certificate \
             of `rosemary pki user NAME --role ROLE` will do, too",
        ));
    };
    let detail = format!("{} has the role {own}, and this needs {role}", principal.who);
    let hint = match principal.how {
        How::Loopback => "use the Unix socket as a member of the group rosemary, or a token",
        How::Certificate => "use a certificate with that role, which `rosemary pki user` makes",
        _ => "ask an admin for a token with that role",
    };
    Err(Problem::forbidden(detail, hint))
}

/// Finds out who sends a request.
fn principal(api: &Api, from: &From, headers: &HeaderMap) -> Result<Principal, Problem> {
    if let Some(token) = bearer(headers)? {
        return of_token(api, token);
    }
    match *from {
        From::Tls { ref certificate, .. } => match certificate {
            Some(certificate) => {
                certificate.principal(&api.credentials().revoked, SystemTime::now())
            }
            None => Ok(Principal::nobody()),
        },
        From::Unix { uid } => Ok(Principal {
            who: uid.map_or("an unknown local user".into(), |uid| format!("user {uid}")),
            role: Some(Role::Admin),
            how: How::Unix,
            session: None,
            expires: None,
        }),
        From::Tcp { client, server, .. } if is_local(client, server) => {
            Ok(of_loopback(api, local_user(api, from)))
        }
        From::Tcp { .. } => Ok(Principal::nobody()),
    }
}

/// Whether both ends of a connection are on this machine.
pub(crate) fn is_local(client: SocketAddr, server: SocketAddr) -> bool {
    client.ip().to_canonical().is_loopback() && server.ip().to_canonical().is_loopback()
}

/// The client's socket, if the connection is on this machine and the client has not ended it.
pub(crate) fn local_peer(api: &Api, client: SocketAddr, server: SocketAddr) -> Option<Peer> {
    let peers = api.peers.as_ref().filter(|_| is_local(client, server))?;
    peers.find(client, server).ok()
}

/// The user of a connection on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalUser {
    /// The user of the client's socket, which is the accepted socket and still open.
    Known(u32),
    /// The client has ended the connection.
    Ended,
    /// This system tells no users of connections.
    Untold,
}

/// Finds out which local user is at the other end of a connection now.
pub(crate) fn local_user(api: &Api, from: &From) -> LocalUser {
    let From::Tcp { client, server, peer, .. } = from else { return LocalUser::Untold };
    if api.peers.is_none() {
        return LocalUser::Untold;
    }
    match (peer, local_peer(api, *client, *server)) {
        (Some(accepted), Some(now)) if *accepted == now => LocalUser::Known(now.uid),
        _ => LocalUser::Ended,
    }
}

fn of_loopback(api: &Api, user: LocalUser) -> Principal {
    let viewer = |who: String| Principal {
        who,
        role: Some(Role::Viewer),
        how: How::Loopback,
        session: None,
        expires: None,
    };
    match api.settings.loopback {
        Loopback::None => Principal::nobody(),
        Loopback::Viewer => viewer("a local user".into()),
        Loopback::User => {
            let uid = match user {
                LocalUser::Known(uid) => uid,
                LocalUser::Ended => return Principal::nobody(),
                LocalUser::Untold => return viewer("an unknown local user".into()),
            };
            let principal = viewer(format!("user {uid}"));
            if PROGRAMS.contains(&uid) {
                return Principal { role: None, ..principal };
            }
            if uid == 0 || uid == api.settings.uid {
                return Principal { role: Some(Role::Admin), ..principal };
            }
            principal
        }
    }
}

/// The bearer token of a request, if it has one: in `Authorization`, or among the protocols of a WebSocket, whose other headers a
/// page cannot set.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    if let Some(value) = given.next() {
        let token = value.to_str().ok().and_then(|it| {
            let (scheme, token) = it.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let (Some(token), None) = (token, given.next()) else {
            return Err(unknown_token());
        };
        return Ok(Some(token));
    }
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut protocols = protocols.filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(','));
    Ok(protocols.find_map(|it| it.trim().strip_prefix("bearer.")))
}

fn of_token(api: &Api, token: &str) -> Result<Principal, Problem> {
    let (credentials, now_s) = (api.credentials(), now_s());
    if Sessions::is_one(token) {
        let session = api.sessions.find(token, &credentials.session_key, now_s);
        let session = session.ok_or_else(unknown_token)?;
        return Ok(Principal {
            who: format!("session {}", session.id),
            role: Some(session.role),
            how: How::Session,
            session: Some(session.id),
            expires: Some(moment(session.expires)),
        });
    }
    let record = tokens::find(&credentials, token, now_s, false).ok_or_else(unknown_token)?;
    // A name may have any characters; it must not look like the rest of an audit record.
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    let who = if record.name.chars().all(is_plain) {
        format!("token {} ({})", record.name, record.id)
    } else {
        format!("token {:?} ({})", record.name, record.id)
    };
    let expires = record.expires.map(moment);
    Ok(Principal { who, role: Some(record.role), how: How::Token, session: None, expires })
}

/// Seconds since 1970 as a time.
fn moment(seconds: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH)
}

fn unknown_token() -> Problem {
    Problem::unauthorized(
        "the token is not valid: it is unknown, expired or revoked",
        "`rosemary token list` shows the valid ones, and `rosemary token create` makes one",
    )
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

/// Checks that the client means this machine by the name that it uses.
fn check_host(
    headers: &HeaderMap,
    uri_host: Option<&str>,
    names: &[String],
) -> Result<(), Problem> {
    let mut given = headers.get_all(header::HOST).iter();
    let host = given.next().and_then(|it| it.to_str().ok()).and_then(host_of);
    let is_one = given.next().is_none();
    let is_known = |host: &str| {
        host.parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || names.iter().any(|name| name.eq_ignore_ascii_case(host))
    };
    // An absolute target replaces the header (RFC 9112, section 3.2.2).
    let uri_fits = uri_host.is_none_or(|it| is_known(it.trim_matches(['[', ']'])));
    if is_one && uri_fits && host.is_some_and(is_known) {
        return Ok(());
    }
    Err(Problem::misdirected(
        "the Host header names no address of this machine",
        "use an address or `localhost`, or add the name to `names` in [northbound]",
    ))
}

/// The name or address in `HOST[:PORT]`.
fn host_of(authority: &str) -> Option<&str> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return (port.is_empty() || is_port(port.strip_prefix(':')?)).then_some(host);
    }
    let (host, port) = authority.split_once(':').unwrap_or((authority, "0"));
    (!host.is_empty() && is_port(port)).then_some(host)
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

/// Checks that no page of another origin sent the request. A proxy in front may speak TLS, so only TLS here tells the scheme.
fn check_origin(request: &Request, is_tls: bool) -> Result<(), Problem> {
    let headers = request.headers();
    let foreign = || {
        Problem::forbidden(
            "a page of another origin sent this request",
            "open the page from the address of Rosemary itself",
        )
    };
    let mut origins = headers.get_all(header::ORIGIN).iter();
    if let Some(origin) = origins.next() {
        let host = headers.get(header::HOST).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let own = origin.to_str().ok().and_then(|it| {
            let plain = it.strip_prefix("http://").filter(|_| !is_tls);
            plain.or_else(|| it.strip_prefix("https://"))
        });
        if origins.next().is_some() || own.is_none_or(|own| !own.eq_ignore_ascii_case(host)) {
            return Err(foreign());
        }
    }
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let is_navigation = headers.get("sec-fetch-mode").is_some_and(|it| it == "navigate")
        && request.method() == "GET"
        && !request.uri().path().starts_with("/api/");
    match site {
        None | Some(b"same-origin" | b"none") => Ok(()),
        // A link to the page, which itself shows nothing yet, or to a route of an app, which must change nothing for a GET.
        Some(_) if is_navigation => Ok(()),
        Some(_) => Err(foreign()),
    }
}

/// Adds the headers that keep browsers from misusing an answer.
fn secure(headers: &mut HeaderMap) {
    let mut add = |name: &'static str, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    add("content-security-policy", "default-src 'none'; frame-ancestors 'none'");
    add("x-content-type-options", "nosniff");
    add("x-frame-options", "DENY");
    add("referrer-policy", "no-referrer");
    add("cross-origin-resource-policy", "same-origin");
    add("cache-control", "no-store");
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn hosts_other_than_this_machine_are_refused() {
        let names = ["controller.example".to_owned()];
        let is_ok = |host: &str| {
            let request = request("GET", "/", &[("host", host)]);
            check_host(request.headers(), None, &names).is_ok()
        };
        for host in [
            "127.0.0.1:8181",
            "localhost:8181",
            "LOCALHOST",
            "[::1]:8181",
            "192.0.2.1",
            "Controller.Example:8181",
        ] {
            assert!(is_ok(host), "{host}");
        }
        for host in [
            "attacker.example",
            "localhost.attacker.example:8181",
            "",
            "127.0.0.1.nip.io",
            "127.0.0.1:x",
            "a@127.0.0.1",
            "[::1",
            ":80",
        ] {
            assert!(!is_ok(host), "{host}");
        }
        let two = request("GET", "/", &[("host", "localhost"), ("host", "attacker.example")]);
        assert!(check_host(two.headers(), None, &names).is_err());
        let none = request("GET", "/", &[]);
        assert!(check_host(none.headers(), None, &names).is_err());
        let absolute = request("GET", "http://attacker.example/", &[("host", "localhost")]);
        assert!(check_host(absolute.headers(), absolute.uri().host(), &names).is_err());
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let is_ok = |method: &str, path: &str, headers: &[(&str, &str)]| {
            let host = [("host", "127.0.0.1:8181")];
            let headers: Vec<_> = host.iter().chain(headers).copied().collect();
            check_origin(&request(method, path, &headers), false).is_ok()
        };
        assert!(is_ok("POST", "/api/v1/reload", &[]));
        assert!(is_ok("POST", "/api/v1/reload", &[("origin", "http://127.0.0.1:8181")]));
        for origin in [
            "http://attacker.example",
            "null",
            "http://127.0.0.1:8080",
            "http://localhost:8181",
            "",
            "file://",
        ] {
            assert!(!is_ok("POST", "/api/v1/reload", &[("origin", origin)]), "{origin}");
            assert!(!is_ok("GET", "/api/v1/events", &[("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site", "x"] {
            assert!(!is_ok("GET", "/api/v1/apps", &[("sec-fetch-site", site)]), "{site}");
            let link = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate")];
            assert!(is_ok("GET", "/", &link));
            assert!(!is_ok("POST", "/", &link) && !is_ok("GET", "/api/v1/apps", &link));
        }
        assert!(is_ok("GET", "/api/v1/apps", &[("sec-fetch-site", "same-origin")]));
        for (origin, over_tls) in
            [("https://a.example:8443", true), ("http://a.example:8443", false)]
        {
            let headers = [("host", "a.example:8443"), ("origin", origin)];
            let request = request("POST", "/api/v1/reload", &headers);
            assert!(check_origin(&request, false).is_ok(), "a proxy may speak TLS");
            assert_eq!(check_origin(&request, true).is_ok(), over_tls, "{origin}");
        }
    }

    #[test]
    fn bearer_tokens_are_read_and_other_schemes_are_not() {
        let token = |headers: &[(&str, &str)]| {
            let request = request("GET", "/", headers);
            bearer(request.headers()).map(|it| it.map(ToOwned::to_owned)).map_err(|it| it.status())
        };
        assert_eq!(token(&[("authorization", "bearer abc")]).unwrap().as_deref(), Some("abc"));
        let protocols = [("sec-websocket-protocol", "rosemary.v1, bearer.abc")];
        assert_eq!(token(&protocols).unwrap().as_deref(), Some("abc"));
        assert_eq!(token(&[]).unwrap(), None);
        for wrong in ["Basic YTpi", "abc", ""] {
            assert!(token(&[("authorization", wrong)]).is_err(), "{wrong}");
        }
        let two = [("authorization", "Bearer a"), ("authorization", "Bearer b")];
        assert!(token(&two).is_err());
    }
}
