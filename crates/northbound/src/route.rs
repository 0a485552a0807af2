//! The table of all routes. The dispatcher, the check of roles and the `OpenAPI` description are made from it, so a route cannot exist
//! without a role and a description.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use control::northbound::Role;

use crate::call::Call;
use crate::limits;
use crate::problem::Problem;
use crate::state::Api;

/// The methods that routes use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    /// Also answers HEAD.
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    fn is(self, method: &str) -> bool {
        self.name() == method || self == Self::Get && method == "HEAD"
    }
}

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everyone, also without a token.
    Anyone,
    /// Users with at least this role.
    Role(Role),
}

/// The form of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text of at most 256 characters.
    Text,
    /// A datapath id.
    Dpid,
    /// A number within bounds, both included.
    Number(u64, u64),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// A parameter of the query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) required: bool,
    pub(crate) about: &'static str,
}

impl Param {
    pub(crate) const fn new(name: &'static str, form: Form, about: &'static str) -> Self {
        Self { name, form, required: false, about }
    }

    pub(crate) const fn required(name: &'static str, form: Form, about: &'static str) -> Self {
        Self { name, form, required: true, about }
    }
}

/// The parameters of lists.
pub(crate) const PAGE: [Param; 2] = [
    Param::new("limit", Form::Number(1, 1_000), "Most items of the answer; 100 without it"),
    Param::new("after", Form::Number(0, u32::MAX as u64), "The `next` of the page before"),
];

/// The form of an answer's or a body's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// JSON of the schema with this name.
    Json(&'static str),
    /// A page of a list, whose items have the schema with this name.
    List(&'static str),
    /// Another media type.
    Other(&'static str),
    /// None.
    Empty,
}

/// The body of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyForm {
    pub(crate) content: Content,
    pub(crate) required: bool,
    /// The most bytes.
    pub(crate) most: usize,
}

/// The result of a handler.
pub(crate) type Answer = Result<Response, Problem>;

/// Handles a request.
pub(crate) type Handler =
    Arc<dyn Fn(Arc<Api>, Call) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

/// A method of a path.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) verb: Verb,
    /// Segments in braces are parameters; `{*name}` at the end stands for all that follows.
    pub(crate) path: &'static str,
    /// The name of the operation in the description.
    pub(crate) id: &'static str,
    pub(crate) about: &'static str,
    pub(crate) access: Access,
    pub(crate) query: Vec<Param>,
    /// Headers that a request must have, with their meaning.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: Option<BodyForm>,
    /// Successful answers: status, content, meaning.
    pub(crate) answers: Vec<(u16, Content, &'static str)>,
    /// Statuses of problems besides those that every route has.
    pub(crate) problems: Vec<u16>,
    /// How long a request may take; `None` for a stream, which may last.
    pub(crate) time: Option<Duration>,
    /// Whether the API's description contains it.
    pub(crate) described: bool,
    pub(crate) handler: Handler,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.name(), self.path)
    }
}

impl Route {
    /// A route for viewers (GET) or admins (all else), until [`role`](Self::role) says otherwise.
    pub(crate) fn new<F, R>(verb: Verb, path: &'static str, id: &'static str, handler: F) -> Self
    where
        F: Fn(Arc<Api>, Call) -> R + Send + Sync + 'static,
        R: Future<Output = Answer> + Send + 'static,
    {
        let role = if verb == Verb::Get { Role::Viewer } else { Role::Admin };
        Self {
            verb,
            path,
            id,
            about: "",
            access: Access::Role(role),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            answers: Vec::new(),
            problems: Vec::new(),
            time: Some(limits::REQUEST_TIME),
            described: true,
            handler: Arc::new(move |api, call| Box::pin(handler(api, call))),
        }
    }

    pub(crate) fn get<F, R>(path: &'static str, id: &'static str, handler: F) -> Self
    where
        F: Fn(Arc<Api>, Call) -> R + Send + Sync + 'static,
        R: Future<Output = Answer> + Send + 'static,
    {
        Self::new(Verb::Get, path, id, handler)
    }

    /// Describes the route in one sentence.
    pub(crate) fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Sets the role.
    pub(crate) fn role(mut self, role: Role) -> Self {
        self.access = Access::Role(role);
        self
    }

    /// Lets everyone use the route.
    pub(crate) fn anyone(mut self) -> Self {
        self.access = Access::Anyone;
        self
    }

    /// Adds parameters of the query.
    pub(crate) fn query(mut self, params: &[Param]) -> Self {
        self.query.extend_from_slice(params);
        self
    }

    /// Declares a JSON body.
    pub(crate) fn json_body(mut self, schema: &'static str, required: bool) -> Self {
        self.body = Some(BodyForm { content: Content::Json(schema), required, most: limits::BODY });
        self
    }

    /// Declares a body of another media type.
    pub(crate) fn raw_body(mut self, media: &'static str, most: usize) -> Self {
        self.body = Some(BodyForm { content: Content::Other(media), required: true, most });
        self
    }

    /// Declares a header that the request must have.
    pub(crate) fn header(mut self, name: &'static str, about: &'static str) -> Self {
        self.headers.push((name, about));
        self
    }

    /// Declares a successful answer.
    pub(crate) fn answer(mut self, status: u16, content: Content, about: &'static str) -> Self {
        self.answers.push((status, content, about));
        self
    }

    /// Declares an answer with status 200 and JSON of this schema.
    pub(crate) fn json(self, schema: &'static str) -> Self {
        self.answer(200, Content::Json(schema), "The answer")
    }

    /// Declares that the answer is a page of a list, with the parameters of pages.
    pub(crate) fn list(self, schema: &'static str) -> Self {
        self.query(&PAGE).answer(200, Content::List(schema), "A page of the list")
    }

    /// Declares further statuses of problems.
    pub(crate) fn problems(mut self, statuses: &[u16]) -> Self {
        self.problems.extend_from_slice(statuses);
        self
    }

    /// Sets how long a request may take.
    pub(crate) fn time(mut self, time: Option<Duration>) -> Self {
        self.time = time;
        self
    }

    /// Leaves the route out of the API's description.
    pub(crate) fn undescribed(mut self) -> Self {
        self.described = false;
        self
    }

    /// Returns the values of the path's parameters, if the path has this form.
    fn matches(&self, segments: &[String]) -> Option<BTreeMap<&'static str, String>> {
        let mut values = BTreeMap::new();
        let mut given = segments.iter();
        for part in self.path.split('/').skip(1) {
            if let Some(name) = part.strip_prefix("{*").and_then(|it| it.strip_suffix('}')) {
                let rest: Vec<&str> = given.by_ref().map(String::as_str).collect();
                values.insert(name, rest.join("/"));
                return Some(values);
            }
            let segment = given.next()?;
            match part.strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
                Some(_) if segment.is_empty() => return None,
                Some(name) => {
                    values.insert(name, segment.clone());
                }
                None if part == segment => {}
                None => return None,
            }
        }
        given.next().is_none().then_some(values)
    }
}

/// The result of looking a path up.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// The route, and the values of the path's parameters.
    Route(&'a Route, BTreeMap<&'static str, String>),
    /// The path has these methods only.
    OtherMethods(Vec<&'static str>),
    /// No route has this path.
    Nothing,
}

/// All routes of a listener.
#[derive(Debug, Default)]
pub(crate) struct Routes(Vec<Route>);

impl Routes {
    /// Collects routes.
    pub(crate) fn new(routes: Vec<Route>) -> Self {
        Self(routes)
    }

    /// All routes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.0.iter()
    }

    /// Looks a path up.
    pub(crate) fn find(&self, method: &str, segments: &[String]) -> Found<'_> {
        let mut others = Vec::new();
        for route in &self.0 {
            if let Some(values) = route.matches(segments) {
                if route.verb.is(method) {
                    return Found::Route(route, values);
                }
                others.push(route.verb.name());
                if route.verb == Verb::Get {
                    others.push("HEAD");
                }
            }
        }
        if others.is_empty() { Found::Nothing } else { Found::OtherMethods(others) }
    }
}

/// Splits a path into its segments and decodes them.
///
/// # Errors
/// Why no route can be meant: the path is not absolute, or a segment decodes to something else than a name.
pub(crate) fn segments(path: &str) -> Result<Vec<String>, &'static str> {
    let path = path.strip_prefix('/').ok_or("a path begins with a slash")?;
    path.split('/').map(decode).collect()
}

/// Decodes a segment or a word of a query (RFC 3986, section 2.1).
fn decode(segment: &str) -> Result<String, &'static str> {
    let text = percent_decoded(segment, false)?;
    if text.contains(['/', '\\', '\0']) || text == "." || text == ".." {
        return Err("a segment of the path contains a slash, a zero byte, or only dots");
    }
    Ok(text)
}

/// Decodes percent signs, and plus signs in a query.
pub(crate) fn percent_decoded(text: &str, plus: bool) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap_or(0), rest.next().unwrap_or(0)];
                let digits = digits.map(|it| char::from(it).to_digit(16));
                let [Some(high), Some(low)] = digits else {
                    return Err("a percent sign is not followed by two hexadecimal digits");
                };
                u8::try_from(high * 16 + low).unwrap_or(0)
            }
            b'+' if plus => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn nothing(_: Arc<Api>, _: Call) -> Answer {
        Err(Problem::not_found("", ""))
    }

    fn routes() -> Routes {
        Routes::new(vec![
            Route::get("/a", "a", nothing),
            Route::get("/a/{name}", "b", nothing),
            Route::new(Verb::Post, "/a/{name}/go", "c", nothing),
            Route::get("/files/{*path}", "d", nothing),
        ])
    }

    fn found(method: &str, path: &str) -> String {
        let Ok(segments) = segments(path) else { return "bad path".into() };
        match routes().find(method, &segments) {
            Found::Route(route, values) => format!("{} {values:?}", route.id),
            Found::OtherMethods(methods) => methods.join(","),
            Found::Nothing => "nothing".into(),
        }
    }

    #[test]
    fn paths_lead_to_their_routes() {
        assert_eq!(found("GET", "/a"), "a {}");
        assert_eq!(found("HEAD", "/a"), "a {}");
        assert_eq!(found("GET", "/a/x%3ay"), r#"b {"name": "x:y"}"#);
        assert_eq!(found("POST", "/a/x/go"), r#"c {"name": "x"}"#);
        assert_eq!(found("GET", "/files/x/y.js"), r#"d {"path": "x/y.js"}"#);
        assert_eq!(found("DELETE", "/a/x"), "GET,HEAD");
        for path in ["/", "/a/", "/a//go", "/b", "/a/x/go/", "/A"] {
            assert_eq!(found("GET", path), "nothing", "{path}");
        }
    }

    #[test]
    fn tricks_with_paths_lead_nowhere() {
        for path in [
            "a",
            "/a/..",
            "/a/%2e%2E",
            "/a/x%2fgo",
            "/a/%00",
            "/a/%zz",
            "/a/%2",
            "/a/%ff",
            "/a/x\\y",
            "/files/../a",
        ] {
            assert_eq!(found("GET", path), "bad path", "{path}");
        }
    }
}
