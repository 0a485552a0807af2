//! HTTP requests to the app, and its answers.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sdk::abi::host::Host as _;
use sdk::http::{HttpRequest as RawRequest, Response};
use sdk::serving::{ClientId, ClientRequest};

use crate::zone::Zone;

/// An HTTP request to the app, which has the capability `http.serve`.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct HttpRequest {
    /// Who sent it, for `Zone.respond`.
    client: u64,
    /// Its number, for `Zone.respond`.
    id: u64,
    /// The method, such as `GET`.
    method: String,
    /// The path behind the app's name and the query, as the client sent them.
    target: String,
    /// Names in lower case, and values.
    headers: Vec<(String, String)>,
    /// The body.
    body: Py<PyBytes>,
}

impl HttpRequest {
    pub(crate) fn of(py: Python<'_>, request: &RawRequest<'_>) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            client: request.id.client.0,
            id: request.id.id,
            method: request.method.to_owned(),
            target: request.target.to_owned(),
            headers: request.headers.iter().map(owned).collect(),
            body: PyBytes::new(py, request.body).unbind(),
        }
    }
}

#[pymethods]
impl HttpRequest {
    #[classattr]
    #[allow(non_upper_case_globals, reason = "the name in Python")]
    const kind: &'static str = "http-request";

    /// Makes one for a test of an app.
    #[new]
    #[pyo3(signature = (method, target, headers = Vec::new(), body = None))]
    fn new(
        py: Python<'_>,
        method: String,
        target: String,
        headers: Vec<(String, String)>,
        body: Option<Py<PyBytes>>,
    ) -> Self {
        let body = body.unwrap_or_else(|| PyBytes::new(py, &[]).unbind());
        Self { client: 0, id: 0, method, target, headers, body }
    }

    /// The path without the query, as the client sent it.
    #[getter]
    fn path(&self) -> &str {
        self.target.split_once('?').map_or(&self.target, |(path, _)| path)
    }

    /// The query behind the question mark, as the client sent it.
    #[getter]
    fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// The value of the first header of this name, in any case.
    fn header(&self, name: &str) -> Option<&str> {
        let named = self.headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    fn __repr__(&self) -> String {
        format!("HttpRequest({:?}, {:?})", self.method, self.target)
    }
}

#[pymethods]
impl Zone {
    /// Answers an HTTP request with a `rosemary.Response`, now or in a later call.
    fn respond(
        &self,
        request: PyRef<'_, HttpRequest>,
        response: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let response = Response {
            status: response.getattr("status")?.extract()?,
            headers: response.getattr("headers")?.extract()?,
            body: response.getattr("body")?.extract()?,
        };
        let parts = response.parts().map_err(|bad| {
            PyValueError::new_err(format!("the answer to an HTTP request is not valid: {bad}"))
        })?;
        let id = ClientRequest { client: ClientId(request.client), id: request.id };
        self.sending(|host, _| {
            for (number, part) in parts.iter().enumerate() {
                host.answer(id, number + 1 < parts.len(), part);
            }
            Ok(())
        })
    }
}
