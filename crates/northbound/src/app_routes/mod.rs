//! Serves the routes that apps publish, as `/apps/NAME/...` at an address of their own.
//!
//! An app's answers are hostile. So nothing here identifies a user: the proxy has an origin of its own, passes no
//! `Authorization`, no cookie and no WebSocket on, and accepts no cookie. A page of an app is sandboxed by the browser: it has an
//! origin that it shares with nothing, runs no script and loads nothing.
//!
//! | file | purpose |
//! | --- | --- |
//! | `link.rs` | the connection to one app |
//! | `headers.rs` | the headers that are passed on |

mod headers;
mod link;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use control::operator::ProgramState;
use routes::{MOST_ANSWER_BODY, MOST_REQUEST_BODY, RequestTooLong};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};
use view::client::ClientError;

use self::link::{ANSWER_TIME, EndOfLink, Link, NoAnswer};
use crate::call::receive;
use crate::limits::{self, Payer};
use crate::problem::Problem;
use crate::route::Answer;
use crate::state::{Api, lock};

/// Lets a browser show an answer, with the styles and images inside of it, and do nothing else.
const POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// The capability of apps with routes.
const CAPABILITY: &str = "http.serve";

/// Bytes of all answers that apps are sending, or that clients have not received yet. Each is counted as the longest until it is
/// complete.
const MOST_OF_ALL: usize = 128 << 20;

/// Bytes of a permit.
const PERMIT: usize = 1 << 10;

/// The apps that publish routes.
#[derive(Debug)]
pub(crate) struct AppRoutes {
    /// The connections, by the names of the apps.
    links: Mutex<HashMap<String, RouteLinkState>>,
    /// Room for answers, in units of [`PERMIT`].
    room: Arc<Semaphore>,
}

impl Default for AppRoutes {
    fn default() -> Self {
        Self { links: Mutex::default(), room: Arc::new(Semaphore::new(permits(MOST_OF_ALL))) }
    }
}

fn permits(bytes: usize) -> usize {
    bytes.div_ceil(PERMIT)
}

/// The body of an answer, with its share of the room until the client has received it.
struct Held {
    body: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[derive(Debug, Clone)]
enum RouteLinkState {
    Open(Arc<Link>),
    /// The app broke the protocol, and has not been started again since.
    Broken(EndOfLink),
    /// The app has ended. It is remembered, so that requests to it are counted apart from those to names of no app.
    Ended,
}

impl AppRoutes {
    /// Uses a new connection to an app.
    pub(crate) fn connect(self: &Arc<Self>, app: String, socket: OwnedFd) {
        let link = match Link::new(socket) {
            Ok(link) => link,
            Err(error) => {
                let hint = "restart the app";
                warn!(app, %error, hint, "could not use the connection to an app with routes");
                return;
            }
        };
        lock(&self.links).insert(app.clone(), RouteLinkState::Open(link.clone()));
        let all = self.clone();
        tokio::spawn(async move {
            let end = link.run().await;
            all.ended(&app, &link, end);
        });
    }

    fn ended(&self, app: &str, link: &Arc<Link>, end: EndOfLink) {
        let mut links = lock(&self.links);
        let is_current = matches!(links.get(app), Some(RouteLinkState::Open(current)) if Arc::ptr_eq(current, link));
        if !is_current {
            return;
        }
        match end {
            EndOfLink::Closed => {
                debug!(app, "an app with routes has ended");
                links.insert(app.to_owned(), RouteLinkState::Ended);
            }
            EndOfLink::Broken(_) => {
                let hint = "its routes return when it is started again";
                warn!(app, why = %end, hint, "closed the connection to an app with routes");
                links.insert(app.to_owned(), RouteLinkState::Broken(end));
            }
        }
    }

    /// Reserves room for an answer of unknown size.
    fn reserve(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let most = u32::try_from(permits(MOST_ANSWER_BODY)).unwrap_or(u32::MAX);
        self.room.clone().try_acquire_many_owned(most).map_err(|_| {
            let detail = "clients have not received earlier answers of apps";
            soon(Problem::unavailable(detail, "try again in a moment"))
        })
    }

    /// Who pays for a request to this path.
    pub(crate) fn payer(&self, path: &str) -> Payer {
        match split(path) {
            Ok((app, _)) if lock(&self.links).contains_key(app) => Payer::App(app.to_owned()),
            _ => Payer::NoApp,
        }
    }

    fn state(&self, app: &str) -> Option<RouteLinkState> {
        lock(&self.links).get(app).cloned()
    }

    /// Forgets an app that has ended and is not to run any more.
    fn forget(&self, app: &str) {
        let mut links = lock(&self.links);
        if let Some(RouteLinkState::Ended) = links.get(app) {
            links.remove(app);
        }
    }
}

/// Handles an admitted request.
pub(crate) async fn serve(api: Arc<Api>, request: Request) -> Response {
    let mut response = match answer(&api, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    response
}

async fn answer(api: &Arc<Api>, request: Request) -> Answer {
    let target = request.uri().path_and_query().map_or("/", |it| it.as_str());
    let (app, target) = match split(target) {
        Ok((app, target)) => (app.to_owned(), target.to_owned()),
        Err(Elsewhere::Nowhere) => {
            let hint = "the routes of apps are at /apps/NAME/; the API has an address of its own";
            return Err(Problem::not_found("there is nothing at this path", hint));
        }
        // Without the slash at the end, relative links of the app's page would lead to other apps.
        Err(Elsewhere::At(path)) => return redirect(&path),
    };
    let link = match api.app_routes.state(&app) {
        Some(RouteLinkState::Open(link)) => link,
        Some(RouteLinkState::Broken(end)) => {
            let hint = format!("`rosemary app restart {app}` starts it again; see `rosemary logs`");
            return Err(Problem::bad_answer(end.to_string(), hint));
        }
        Some(RouteLinkState::Ended) | None => return Err(explain(api, app).await),
    };
    let (parts, body) = request.into_parts();
    let body = tokio::time::timeout(limits::REQUEST_TIME, receive(body, MOST_REQUEST_BODY));
    let late = |_| Problem::slow("the body took too long to arrive", "send the body faster");
    let body = body.await.map_err(late)??;
    let headers = headers::for_app(&parts.headers, &app);
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let request = routes::Request::encode(parts.method.as_str(), &target, &headers, &body);
    let request = request.map_err(of_length)?;
    let mut room = api.app_routes.reserve()?;
    let answer = link.ask(&request).await.map_err(|why| of_no_answer(why, &app))?;
    let mut body = answer.body;
    body.shrink_to_fit();
    drop(room.split(permits(MOST_ANSWER_BODY).saturating_sub(permits(body.len()))));
    let headers = headers::for_client(&answer.headers, &app).map_err(|why| {
        Problem::bad_answer(format!("the answer of {app} is not valid: {why}"), of_developer(&app))
    })?;
    Ok(response(answer.status, headers, Held { body, _room: room }))
}

/// Where a path leads if not to an app.
#[derive(Debug, PartialEq, Eq)]
enum Elsewhere {
    Nowhere,
    At(String),
}

/// Splits `/apps/NAME/...` into the name, and the rest from its slash on with the query.
fn split(target: &str) -> Result<(&str, &str), Elsewhere> {
    let rest = target.strip_prefix("/apps/").ok_or(Elsewhere::Nowhere)?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (app, rest) = rest.split_at(end);
    if !config::is_name(app) {
        return Err(Elsewhere::Nowhere);
    }
    if rest.starts_with('/') {
        Ok((app, rest))
    } else {
        Err(Elsewhere::At(format!("/apps/{app}/{rest}")))
    }
}

fn redirect(path: &str) -> Answer {
    let mut response = StatusCode::PERMANENT_REDIRECT.into_response();
    let path = HeaderValue::from_str(path)
        .map_err(|_| Problem::invalid("the path is no header", "encode it as RFC 3986 says"))?;
    response.headers_mut().insert(header::LOCATION, path);
    Ok(response)
}

fn response(status: u16, headers: HeaderMap, body: Held) -> Response {
    let mut response = Response::new(Body::from(Bytes::from_owner(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = headers;
    response
}

fn of_length(why: RequestTooLong) -> Problem {
    let detail = why.to_string();
    match why {
        RequestTooLong::Body => Problem::too_large(detail, "send less at once"),
        RequestTooLong::Target => Problem::uri_too_long(detail, "use a shorter path"),
        RequestTooLong::Headers => Problem::headers_too_large(detail, "send fewer headers"),
        RequestTooLong::Method => Problem::invalid(detail, "use a method of RFC 9110"),
    }
}

fn of_no_answer(why: NoAnswer, app: &str) -> Problem {
    let log = format!("see `rosemary logs app {app}`");
    match why {
        NoAnswer::Busy => {
            let detail = format!("{app} has {} requests already", sdk::http::MOST_REQUESTS);
            soon(Problem::unavailable(detail, "try again in a moment"))
        }
        NoAnswer::Unread => soon(Problem::unavailable(format!("{app} reads no requests"), log)),
        NoAnswer::Gone => Problem::bad_answer(format!("{app} ended before it answered"), log),
        NoAnswer::Late => {
            let seconds = ANSWER_TIME.as_secs();
            Problem::timeout(format!("{app} did not answer in {seconds} s"), log)
        }
        NoAnswer::Bad(why) => {
            let detail = format!("the answer of {app} is not valid: {why}");
            Problem::bad_answer(detail, of_developer(app))
        }
    }
}

fn of_developer(app: &str) -> String {
    format!("this is a mistake of the app {app}; tell its developer")
}

/// Refuses a request over a connection that exceeds the app's share, and has it closed.
pub(crate) fn too_many_connections(app: &str) -> Problem {
    let most = limits::CONNECTIONS_OF_APP;
    let detail = format!("the clients of {app} have {most} connections already");
    let problem = Problem::unavailable(detail, "close some of them, and try again");
    soon(problem).header(header::CONNECTION, "close")
}

fn soon(problem: Problem) -> Problem {
    problem.header(header::RETRY_AFTER, "1")
}

/// Says why an app has no connection, and what to do.
async fn explain(api: &Arc<Api>, app: String) -> Problem {
    let unknown = || {
        api.app_routes.forget(&app);
        Problem::not_found(format!("no app {app} runs"), "`rosemary apps` lists the apps")
    };
    // Anybody on this machine can ask for names that do not exist.
    let status = api.recent_status().await;
    if status.is_some_and(|status| status.apps.iter().all(|it| it.name != app)) {
        return unknown();
    }
    let name = app.clone();
    let asked = api.wait(move |api| Ok::<_, Problem>(api.ask_monitor(|it| it.app(&name)))).await;
    let report = match asked {
        Ok(Ok(report)) => report,
        Ok(Err(ClientError::Unavailable(_))) => return unknown(),
        Ok(Err(error)) => return error.into(),
        Err(problem) => return problem,
    };
    if !report.rights.names.iter().any(|right| right == CAPABILITY) {
        return refuse(&app);
    }
    let state = report.status.state;
    let hint = match state {
        ProgramState::Stopped => format!("type `rosemary app start {app}`"),
        ProgramState::Running => {
            format!(
                "try again in a moment; if that does not help, type `rosemary app restart {app}`"
            )
        }
        _ => "try again in a moment; see `rosemary apps`".to_owned(),
    };
    soon(Problem::unavailable(format!("{app} cannot be reached; its state is {state}"), hint))
}

fn refuse(app: &str) -> Problem {
    let hint = format!(
        "add \"{CAPABILITY}\" to `capabilities` in the [[app]] of {app}, and type `rosemary reload`"
    );
    Problem::forbidden(format!("{app} may not serve HTTP"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_apps() {
        for (target, app, rest) in [
            ("/apps/a/", "a", "/"),
            ("/apps/a/b/c?d=/e", "a", "/b/c?d=/e"),
            ("/apps/my-app//x", "my-app", "//x"),
            ("/apps/a/../b/", "a", "/../b/"),
            ("/apps/a/%2e%2e/b", "a", "/%2e%2e/b"),
        ] {
            assert_eq!(split(target), Ok((app, rest)), "{target}");
        }
        let at = |path: &str| Err(Elsewhere::At(path.to_owned()));
        assert_eq!(split("/apps/a"), at("/apps/a/"));
        assert_eq!(split("/apps/a?b=/c"), at("/apps/a/?b=/c"));
        for target in [
            "/",
            "/apps",
            "/apps/",
            "/apps//a/",
            "/apps/A/",
            "/apps/%61/",
            "/apps/a%2fb/",
            "/apps/../x/",
            "/api/v1/apps",
        ] {
            assert_eq!(split(target), Err(Elsewhere::Nowhere), "{target}");
        }
    }

    #[test]
    fn refusal_names_the_capability() {
        let text = format!("{:?}", refuse("web"));
        assert!(text.contains("[[app]] of web") && text.contains("http.serve"), "{text}");
        assert_eq!(refuse("web").status(), StatusCode::FORBIDDEN);
    }

    #[test]
    fn answers_that_nobody_receives_take_bounded_room() {
        let routes = AppRoutes::default();
        let mut held = Vec::new();
        while let Ok(room) = routes.reserve() {
            held.push(response(
                200,
                HeaderMap::new(),
                Held { body: vec![0; MOST_ANSWER_BODY], _room: room },
            ));
            assert!(held.len() <= MOST_OF_ALL / MOST_ANSWER_BODY);
        }
        assert_eq!(held.len(), MOST_OF_ALL / MOST_ANSWER_BODY);
        held.pop();
        assert!(routes.reserve().is_ok(), "a client has received its answer, or has gone");
    }

    #[test]
    fn app_that_restarts_pays_for_itself() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let routes = Arc::new(AppRoutes::default());
            assert_eq!(routes.payer("/apps/web/x"), Payer::NoApp);
            let (ours, theirs) = sys::packets::Packets::pair().unwrap();
            routes.connect("web".into(), ours.into_fd());
            drop(theirs);
            while !matches!(routes.state("web"), Some(RouteLinkState::Ended)) {
                tokio::task::yield_now().await;
            }
            assert_eq!(routes.payer("/apps/web/x"), Payer::App("web".into()));
            routes.forget("web");
            assert_eq!(routes.payer("/apps/web/x"), Payer::NoApp, "it left the configuration");
        });
    }

    #[test]
    fn policy_allows_neither_scripts_nor_the_origin() {
        assert!(POLICY.starts_with("sandbox;") && POLICY.contains("default-src 'none'"));
        assert!(!POLICY.contains("allow-") && !POLICY.contains("script-src"), "{POLICY}");
    }
}
