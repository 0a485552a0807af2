//! HTTP routes that an application publishes.
//!
//! The operator grants the capability `http.serve`, and Rosemary's HTTP interface serves the application at
//! `/apps/NAME/...` of an address of its own. Each request is an event like every other one: [`App::on_http_request`]
//! answers it on the application's only thread, so no answer should take long.
//!
//! ```
//! use rosemary_sdk::http::{HttpRequest, Response};
//! use rosemary_sdk::{App, Event, Network, export_app};
//!
//! struct Counter {
//!     packets: u64,
//! }
//!
//! impl App for Counter {
//!     fn create() -> Self {
//!         Self { packets: 0 }
//!     }
//!
//!     fn on_event(&mut self, event: Event<'_>, _: &mut Network<'_>) {
//!         self.packets += u64::from(matches!(event, Event::PacketIn(_)));
//!     }
//!
//!     fn on_http_request(
//!         &mut self,
//!         request: &HttpRequest<'_>,
//!         _: &mut Network<'_>,
//!     ) -> Option<Response> {
//!         Some(match (request.method, request.path()) {
//!             ("GET", "/packets") => Response::json(200, self.packets.to_string()),
//!             _ => Response::text(404, "there is only /packets\n"),
//!         })
//!     }
//! }
//!
//! export_app!(Counter, name = "counter");
//! ```
//!
//! Requests have no `Authorization` and no `Cookie`: the application never learns who sends them. A browser runs no script
//! of an answer, sends none of its forms and loads nothing for it except styles and images inside of the page, so that no page
//! can act as the operator. Programs use the routes as any HTTP interface.

use crate::network::Network;
use crate::serving::ClientRequest;

pub use routes::{
    BadAnswer, HeaderList, LONGEST_TARGET, MOST_ANSWER_BODY, MOST_HEADER_BYTES, MOST_HEADERS,
    MOST_REQUEST_BODY, Request, Response,
};

// A part of an answer travels as an answer to a client of a service does.
const _: () = assert!(routes::PART == crate::services::MAX_MESSAGE);

/// The first byte of a request of the HTTP interface, on the socket of a client of the application.
pub const HTTP_REQUEST: u8 = 2;

/// Most requests of the HTTP interface that the application has at once. After ten seconds a request counts no longer.
pub const MOST_REQUESTS: usize = 16;

/// An HTTP request to the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpRequest<'a> {
    /// The request's number, for [`Network::respond`].
    pub id: ClientRequest,
    /// The request.
    pub request: Request<'a>,
}

impl<'a> std::ops::Deref for HttpRequest<'a> {
    type Target = Request<'a>;

    fn deref(&self) -> &Request<'a> {
        &self.request
    }
}

impl Network<'_> {
    /// Answers an HTTP request for which [`App::on_http_request`](crate::App::on_http_request) returned `None`. The client waits
    /// ten seconds in all; a later answer is discarded.
    ///
    /// # Errors
    /// [`BadAnswer`]: the answer is not valid, and nothing was sent.
    pub fn respond(
        &mut self,
        request: ClientRequest,
        response: &Response,
    ) -> Result<(), BadAnswer> {
        let parts = response.parts()?;
        let last = parts.len() - 1;
        for (number, part) in parts.iter().enumerate() {
            self.answer(request, number < last, part);
        }
        Ok(())
    }

    /// Answers a request with the result of a handler. An answer that is not valid becomes status 500.
    pub(crate) fn respond_or_explain(&mut self, request: &HttpRequest<'_>, response: &Response) {
        if let Err(error) = self.respond(request.id, response) {
            let (method, path) = (request.method, request.path());
            self.error(&format!("the answer to {method} {path} was not sent: {error}"));
            let _ =
                self.respond(request.id, &Response::text(500, "the app's answer is not valid\n"));
        }
    }
}
