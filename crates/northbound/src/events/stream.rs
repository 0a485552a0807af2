//! Sends events to a client: as server-sent events, or over a WebSocket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts as _;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use control::northbound::Role;
use futures_util::{SinkExt as _, StreamExt as _, stream};
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{Event, KINDS, Subscription, now_ns};
use crate::auth::standing::Standing;
use crate::call::Call;
use crate::guard;
use crate::problem::Problem;
use crate::route::{Answer, Content, Form, Param, Route};
use crate::state::Api;

/// The time after which a client without events receives a sign of life. Dead connections are found that way.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// The most bytes of a client's WebSocket message. Clients have nothing to say.
const FROM_CLIENT: usize = 1024;

/// The protocol of the WebSocket.
const PROTOCOL: &str = "rosemary.v1";

const QUERY: [Param; 2] = [
    Param::new("kinds", Form::Text, "Only events of these kinds, with commas between"),
    Param::new(
        "last",
        Form::Number(0, u64::MAX),
        "The number of the last event that the client saw; `Last-Event-ID` says the same",
    ),
];

/// The route of events.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/events", "events", events)
            .about("Sends events as they happen: as server-sent events, or over a WebSocket if the client requests that")
            .query(&QUERY)
            .answer(200, Content::Other("text/event-stream"), "The events; the stream does not end")
            .answer(101, Content::Empty, "The connection becomes a WebSocket")
            .time(None),
    ]
}

async fn events(api: Arc<Api>, mut call: Call) -> Answer {
    let kinds: Option<Vec<String>> =
        call.query("kinds").map(|it| it.split(',').map(str::to_owned).collect());
    if let Some(wrong) = kinds.iter().flatten().find(|it| !KINDS.contains(&it.as_str())) {
        let hint = format!("the kinds are: {}", KINDS.join(", "));
        return Err(Problem::invalid(format!("there is no kind {wrong:?}"), hint));
    }
    let last = call.headers().get("last-event-id").and_then(|it| it.to_str().ok()?.parse().ok());
    let last = call.query_number("last").or(last);
    let wants_socket = call
        .headers()
        .get(header::UPGRADE)
        .is_some_and(|it| it.to_str().is_ok_and(|it| it.eq_ignore_ascii_case("websocket")));
    let standing = guard::standing(&api, &call, Role::Viewer);
    let feed = Feed::new(api.events.subscribe(last), kinds, standing);
    if !wants_socket {
        return Ok(server_sent(feed));
    }
    let upgrade = WebSocketUpgrade::from_request_parts(&mut call.parts, &()).await;
    let upgrade = upgrade.map_err(|error| {
        Problem::invalid(error.to_string(), "open the WebSocket as RFC 6455 says")
    })?;
    let upgrade = upgrade.max_message_size(FROM_CLIENT).max_frame_size(FROM_CLIENT);
    let upgrade = upgrade.protocols([PROTOCOL]);
    Ok(upgrade.on_upgrade(|socket| over_socket(socket, feed)).into_response())
}

/// The events for one client.
struct Feed {
    /// Events that come before those of the receiver.
    first: VecDeque<Arc<Event>>,
    receiver: Receiver<Arc<Event>>,
    kinds: Option<Vec<String>>,
    /// Ends the feed when the client's token, session or certificate is not valid any more.
    standing: Standing,
}

/// An answer of a feed.
enum Next {
    Event(Arc<Event>),
    SignOfLife,
    /// Nothing more: the client is not admitted any more.
    End,
}

impl Feed {
    fn new(subscription: Subscription, kinds: Option<Vec<String>>, standing: Standing) -> Self {
        let Subscription { last, missed, lost, receiver } = subscription;
        let mut first = VecDeque::new();
        first.push_back(own(last, "hello", json!({ "last": last })));
        if lost > 0 {
            first.push_back(own(last, "lost", json!({ "missed": lost })));
        }
        first.extend(missed);
        Self { first, receiver, kinds, standing }
    }

    async fn next(&mut self) -> Next {
        loop {
            // Before each event, so that a client that reads slowly receives none afterwards.
            if !self.standing.holds() {
                return Next::End;
            }
            let event = if let Some(event) = self.first.pop_front() {
                event
            } else {
                tokio::select! {
                    biased;
                    () = self.standing.ended() => return Next::End,
                    received = tokio::time::timeout(SIGN_OF_LIFE, self.receiver.recv()) => {
                        match received {
                            Ok(Ok(event)) => event,
                            Ok(Err(RecvError::Lagged(missed))) => {
                                own(0, "lost", json!({ "missed": missed }))
                            }
                            // The sender lives as long as the process.
                            Ok(Err(RecvError::Closed)) | Err(_) => return Next::SignOfLife,
                        }
                    }
                }
            };
            let is_own = matches!(event.kind, "hello" | "lost");
            if is_own
                || self.kinds.as_ref().is_none_or(|them| them.iter().any(|it| it == event.kind))
            {
                return Next::Event(event);
            }
        }
    }
}

/// An event for one client alone.
fn own(id: u64, kind: &'static str, data: serde_json::Value) -> Arc<Event> {
    Arc::new(Event { id, kind, time: now_ns(), data })
}

fn server_sent(feed: Feed) -> Response {
    let stream = stream::unfold(feed, |mut feed| async move {
        let text = match feed.next().await {
            Next::End => return None,
            Next::SignOfLife => ": still here\n\n".to_owned(),
            Next::Event(event) => {
                let Event { id, kind, time, data } = &*event;
                // JSON has no line breaks. An event of this client alone has no number.
                let id = if *kind == "lost" { String::new() } else { format!("id: {id}\n") };
                // Browsers ignore fields that they do not know, such as `time`.
                format!("{id}event: {kind}\ntime: {time}\ndata: {data}\n\n")
            }
        };
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(text)), feed))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn over_socket(socket: WebSocket, mut feed: Feed) {
    let (mut sender, mut receiver) = socket.split();
    loop {
        tokio::select! {
            event = feed.next() => {
                let message = match event {
                    Next::End => {
                        let reason = "the token or certificate is not valid any more".into();
                        let close = CloseFrame { code: close_code::POLICY, reason };
                        let _ = sender.send(Message::Close(Some(close))).await; // it may have gone
                        return;
                    }
                    Next::SignOfLife => Message::Ping(Bytes::new()),
                    Next::Event(event) => match serde_json::to_string(&*event) {
                        Ok(text) => Message::Text(text.into()),
                        Err(_) => continue,
                    },
                };
                if sender.send(message).await.is_err() {
                    return;
                }
            }
            message = receiver.next() => match message {
                None | Some(Err(_) | Ok(Message::Close(_))) => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use control::northbound::Credentials;
    use tokio::sync::watch;

    use super::*;
    use crate::events::Events;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    /// A feed of events about switches, which ends when a key is set.
    fn feed(events: &Events, credentials: &watch::Sender<Arc<Credentials>>) -> Feed {
        let seen = credentials.subscribe();
        let check = move || seen.borrow().session_key.is_empty().then_some(None);
        let standing = Standing::new(check, credentials.subscribe());
        Feed::new(events.subscribe(None), Some(vec!["switch".into()]), standing)
    }

    async fn event(feed: &mut Feed) -> Arc<Event> {
        match feed.next().await {
            Next::Event(event) => event,
            Next::SignOfLife | Next::End => panic!("no event"),
        }
    }

    #[test]
    fn feed_begins_with_hello_and_has_only_the_wanted_kinds() {
        let (events, credentials) = (Events::default(), watch::Sender::default());
        let mut feed = feed(&events, &credentials);
        events.publish("app", json!({}));
        events.publish("switch", json!({ "dpid": "1" }));
        runtime().block_on(async {
            assert_eq!(event(&mut feed).await.kind, "hello");
            assert_eq!(event(&mut feed).await.id, 2);
        });
    }

    #[test]
    fn slow_client_receives_the_number_of_lost_events() {
        let (events, credentials) = (Events::default(), watch::Sender::default());
        let mut feed = feed(&events, &credentials);
        for _ in 0..super::super::RING + 5 {
            events.publish("app", json!({}));
        }
        runtime().block_on(async {
            assert_eq!(event(&mut feed).await.kind, "hello");
            let lost = event(&mut feed).await;
            assert_eq!((lost.kind, lost.data["missed"].as_u64()), ("lost", Some(5)));
        });
    }

    #[test]
    fn no_event_follows_a_revocation() {
        let (events, credentials) = (Events::default(), watch::Sender::default());
        let mut feed = feed(&events, &credentials);
        runtime().block_on(async {
            assert_eq!(event(&mut feed).await.kind, "hello");
            events.publish("switch", json!({ "dpid": "1" }));
            let key = Credentials { session_key: "x".into(), ..Credentials::default() };
            credentials.send_replace(Arc::new(key));
            assert!(matches!(feed.next().await, Next::End));
            assert!(matches!(feed.next().await, Next::End));
        });
    }
}
