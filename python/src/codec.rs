//! `rosemary.openflow`: decodes any message to Python's plain types, and encodes what was decoded again.

use openflow::Message;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyModule};

use crate::flow::value_error;

/// A decoded message.
#[pyclass(frozen, module = "rosemary.openflow", name = "Message")]
#[derive(Debug)]
pub(crate) struct DecodedMessage {
    bytes: Vec<u8>,
    json: String,
    text: String,
}

#[pymethods]
impl DecodedMessage {
    /// The message as JSON; `rosemary.openflow` makes a dictionary of it.
    #[getter]
    fn json(&self) -> &str {
        &self.json
    }

    /// Encodes the decoded message again.
    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let message = Message::decode(&self.bytes).map_err(|it| value_error(&it))?;
        let mut out = Vec::new();
        openflow::append(&mut out, |out| message.encode(out)).map_err(|it| value_error(&it))?;
        Ok(PyBytes::new(py, &out))
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("Message({})", self.text)
    }
}

/// Decodes one whole message.
///
/// # Errors
/// `ValueError` says which byte is wrong, and what was expected.
#[pyfunction]
fn decode(message: &[u8]) -> PyResult<DecodedMessage> {
    let decoded = Message::decode(message).map_err(|it| value_error(&it))?;
    let json = serde_json::to_string(&decoded).map_err(|it| value_error(&it))?;
    Ok(DecodedMessage { bytes: message.to_vec(), json, text: decoded.to_string() })
}

/// Adds the functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DecodedMessage>()?;
    module.add_function(wrap_pyfunction!(decode, module)?)
}
