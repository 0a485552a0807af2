//! Describes the API: `OpenAPI` 3.1, made from the table of routes and the schemas.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{
    HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, OpenApiBuilder, PathsBuilder, Ref, RefOr, Required,
    SecurityRequirement,
};

use crate::call::Call;
use crate::reply;
use crate::route::{Access, Answer, Content, Form, Param, Route, Routes, Verb};
use crate::schema;
use crate::state::Api;

/// The description, written once.
static WRITTEN: OnceLock<Vec<u8>> = OnceLock::new();

/// The statuses of problems that every described route can have.
const COMMON: [u16; 6] = [400, 403, 408, 421, 429, 503];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/openapi.json", "openapi", openapi)
            .about("Describes this API (OpenAPI 3.1)")
            .answer(200, Content::Other("application/json"), "The description"),
    ]
}

async fn openapi(api: Arc<Api>, call: Call) -> Answer {
    let bytes = WRITTEN.get_or_init(|| describe(&api.routes).to_string().into_bytes());
    let tag = format!("\"openapi-{}-{}\"", env!("CARGO_PKG_VERSION"), bytes.len());
    reply::tagged(&call, &tag, bytes.clone())
}

/// Describes all routes that are to be described.
pub(crate) fn describe(routes: &Routes) -> Value {
    let mut paths = PathsBuilder::new();
    for route in routes.iter().filter(|route| route.described) {
        let item = utoipa::openapi::PathItem::new(method(route.verb), operation(route));
        paths = paths.path(route.path, item);
    }
    let about = "The interface of Rosemary for operators and their programs. Lists come in pages: `next` is the value of \
                 `after` for the next one. Errors are problem details (RFC 9457), whose `hint` says what to do. `x-role` is the \
                 least role that an operation needs; without it no token is needed.";
    let info = InfoBuilder::new()
        .title("Rosemary")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(about))
        .license(Some(utoipa::openapi::License::new("Apache-2.0")))
        .build();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let certificate = SecurityScheme::MutualTls { description: None, extensions: None };
    let components = ComponentsBuilder::new()
        .security_scheme("bearer", bearer)
        .security_scheme("certificate", certificate)
        .build();
    let document =
        OpenApiBuilder::new().info(info).paths(paths).components(Some(components)).build();
    let mut document = serde_json::to_value(document).unwrap_or_default();
    document["components"]["schemas"] = Value::Object(schema::all());
    document["servers"] = json!([{ "url": "/" }]);
    document
}

fn method(verb: Verb) -> HttpMethod {
    match verb {
        Verb::Get => HttpMethod::Get,
        Verb::Post => HttpMethod::Post,
        Verb::Put => HttpMethod::Put,
        Verb::Delete => HttpMethod::Delete,
    }
}

fn operation(route: &Route) -> Operation {
    let mut operation = OperationBuilder::new()
        .operation_id(Some(route.id))
        .summary(Some(route.about))
        .tag(tag(route.path));
    for name in path_params(route.path) {
        operation = operation.parameter(path_param(name));
    }
    for param in &route.query {
        operation = operation.parameter(query_param(param));
    }
    for (name, about) in &route.headers {
        let text = ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
        let header = ParameterBuilder::new()
            .name(*name)
            .parameter_in(ParameterIn::Header)
            .required(Required::True)
            .description(Some(*about))
            .schema(Some(text.build()));
        operation = operation.parameter(header.build());
    }
    if let Some(body) = &route.body {
        let content = ContentBuilder::new().schema(content_schema(body.content)).build();
        let media = media_type(body.content).unwrap_or("application/json");
        let required = if body.required { Required::True } else { Required::False };
        let body = RequestBodyBuilder::new().content(media, content).required(Some(required));
        operation = operation.request_body(Some(body.build()));
    }
    for (status, content, about) in &route.answers {
        operation = operation.response(status.to_string(), answer(*content, about));
    }
    let mut problems: Vec<u16> = COMMON.to_vec();
    problems.extend(&route.problems);
    if route.path.contains('{') {
        problems.push(404);
    }
    if route.body.is_some() {
        problems.extend([413, 415]);
    }
    if let Access::Role(role) = route.access {
        problems.push(401);
        let role = ExtensionsBuilder::new().add("x-role", role.name()).build();
        operation = operation.extensions(Some(role));
        let none: [&str; 0] = [];
        operation = operation.security(SecurityRequirement::new("bearer", none));
        operation = operation.security(SecurityRequirement::new("certificate", none));
        operation = operation.security(SecurityRequirement::default());
    } else {
        // A wrong token is refused everywhere.
        problems.push(401);
    }
    if route.verb == Verb::Get && route.answers.iter().any(|(status, ..)| *status == 200) {
        operation = operation
            .response("304", ResponseBuilder::new().description("The client has this version"));
    }
    problems.sort_unstable();
    problems.dedup();
    for status in problems {
        if !route.answers.iter().any(|(other, ..)| *other == status) {
            operation = operation.response(status.to_string(), problem());
        }
    }
    operation.build()
}

/// The group of an operation: the first segment behind the version.
fn tag(path: &str) -> &str {
    let path = path.strip_prefix("/api/v1").unwrap_or(path);
    path.split('/').nth(1).unwrap_or("page")
}

fn path_params(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'))
}

fn path_param(name: &'static str) -> Parameter {
    let form = match name {
        "dpid" => Form::Dpid,
        "id" => Form::Number(0, u64::MAX),
        "port" => Form::Number(0, u32::MAX.into()),
        _ => Form::Text,
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(form_schema(form)))
        .build()
}

fn query_param(param: &Param) -> Parameter {
    ParameterBuilder::new()
        .name(param.name)
        .parameter_in(ParameterIn::Query)
        .required(if param.required { Required::True } else { Required::False })
        .description(Some(param.about))
        .schema(Some(form_schema(param.form)))
        .build()
}

fn form_schema(form: Form) -> RefOr<Schema> {
    let text = || ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
    let object = match form {
        Form::Text => text().max_length(Some(256)),
        Form::Dpid => text().pattern(Some("^([0-9a-fA-F]{2}:){7}[0-9a-fA-F]{2}$")),
        Form::Number(least, most) => {
            let number = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Integer));
            let number = number.minimum(i64::try_from(least).ok());
            number.maximum(i64::try_from(most).ok())
        }
        Form::Flag => ObjectBuilder::new().schema_type(SchemaType::Type(Type::Boolean)),
        Form::Choice(words) => text().enum_values(Some(words.iter().copied())),
    };
    object.build().into()
}

fn media_type(content: Content) -> Option<&'static str> {
    match content {
        Content::Json(_) | Content::List(_) => Some("application/json"),
        Content::Other(media) => Some(media),
        Content::Empty => None,
    }
}

fn content_schema(content: Content) -> Option<RefOr<Schema>> {
    match content {
        Content::Json(name) => Some(Ref::from_schema_name(name).into()),
        Content::List(name) => {
            let items = ArrayBuilder::new().items(Ref::from_schema_name(name));
            let number = |nullable: bool| {
                let number = ObjectBuilder::new().minimum(Some(0));
                number.schema_type(if nullable {
                    SchemaType::Array(vec![Type::Integer, Type::Null])
                } else {
                    SchemaType::Type(Type::Integer)
                })
            };
            let page = ObjectBuilder::new()
                .property("items", items)
                .property("next", number(true))
                .property("total", number(false));
            let page = page.required("items").required("next").required("total");
            Some(page.build().into())
        }
        Content::Other("application/octet-stream" | "application/toml") => {
            let text = ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
            Some(text.build().into())
        }
        Content::Other(_) | Content::Empty => None,
    }
}

fn answer(content: Content, about: &str) -> Response {
    let response = ResponseBuilder::new().description(about);
    match media_type(content) {
        None => response.build(),
        Some(media) => {
            let content = ContentBuilder::new().schema(content_schema(content)).build();
            response.content(media, content).build()
        }
    }
}

fn problem() -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new()
        .description("A problem; `hint` says what to do")
        .content("application/problem+json", content)
        .build()
}

#[cfg(test)]
#[path = "openapi/page.rs"]
mod page;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_is_complete() {
        let document = describe(&crate::api::routes());
        assert_eq!(document["openapi"].as_str().map(|it| &it[..3]), Some("3.1"));
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "there is no schema {name}");
        }
        let mut ids = std::collections::BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                assert!(!operation["summary"].as_str().unwrap().is_empty(), "{method} {path}");
                assert!(ids.insert(operation["operationId"].to_string()), "{method} {path}");
                assert!(!operation["responses"].as_object().unwrap().is_empty());
                let is_change = method != "get" && !path.ends_with("/session");
                assert!(!is_change || operation["x-role"].is_string(), "{method} {path}");
            }
        }
    }
}
