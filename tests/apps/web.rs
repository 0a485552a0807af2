//! Publishes HTTP routes: shows what it receives, in the answer's body.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /hello` | a page |
//! | `POST /echo`, any query | method, path, query, headers and body as lines |
//! | `GET /later` | given by the timer |
//! | `GET /big` | 300,000 bytes |
//! | `GET /away` | a redirect to `/hello` |

use std::time::Duration;

use rosemary_sdk::http::{HttpRequest, Response};
use rosemary_sdk::serving::ClientRequest;
use rosemary_sdk::{App, Event, Network, export_app};

struct Web {
    later: Vec<ClientRequest>,
}

impl App for Web {
    fn create() -> Self {
        Self { later: Vec::new() }
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {}

    fn on_http_request(
        &mut self,
        request: &HttpRequest<'_>,
        network: &mut Network<'_>,
    ) -> Option<Response> {
        Some(match (request.method, request.path()) {
            ("GET", "/hello") => Response::html(200, "<h1>Hello</h1>\n").header("etag", "\"1\""),
            (_, "/echo") => Response::text(200, echo(request)).header("set-cookie", "a=b"),
            ("GET", "/big") => Response::of(200, "application/octet-stream", vec![b'x'; 300_000]),
            ("GET", "/away") => Response::new(302).header("location", "/hello"),
            ("GET", "/later") => {
                self.later.push(request.id);
                network.wake_at(Duration::from_millis(100));
                return None;
            }
            _ => Response::text(404, "no such path\n"),
        })
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        for request in self.later.drain(..) {
            if let Err(error) = network.respond(request, &Response::text(200, "later\n")) {
                network.error(&error.to_string());
            }
        }
    }
}

fn echo(request: &HttpRequest<'_>) -> String {
    let mut lines = vec![
        format!("method {}", request.method),
        format!("path {}", request.path()),
        format!("query {}", request.query()),
    ];
    lines.extend(request.headers.iter().map(|(name, value)| format!("header {name}: {value}")));
    lines.push(format!("body {}", String::from_utf8_lossy(request.body)));
    lines.join("\n")
}

export_app!(Web, name = "web");
