//! Makes requests for statistics, and JSON of their replies: `/stats/WHAT/DPID/...`.

use openflow::{
    FlowStatsRequest, GroupMod, Match, MeterMod, MultipartRequest, PortNo, QueueConfig, Version,
};
use serde_json::Value;

use crate::change::{encoded, group, match_of, table};
use crate::number::{Own, integer, narrow, of_key, port, port_of_key};
use crate::{OfctlError, has_old_names, reply};

/// A question to a switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    version: Version,
    ask: Ask,
}

#[derive(Debug, Clone, PartialEq)]
enum Ask {
    Multipart(MultipartRequest<'static>),
    /// Flows; only those with this priority are shown.
    Flows(FlowStatsRequest, Option<u16>),
    QueueConfig(PortNo),
}

impl Question {
    /// Returns the question of `/stats/WHAT/DPID/ARGUMENTS`; `None` if Ryu has no such path. `filter` is the body of a request for
    /// flows.
    ///
    /// # Errors
    /// [`OfctlError`]: the version does not have it, or an argument is wrong.
    pub fn named(
        version: Version,
        what: &str,
        arguments: &[&str],
        filter: &Value,
    ) -> Result<Option<Self>, OfctlError> {
        use MultipartRequest as M;
        let argument = |at: usize| arguments.get(at).copied().filter(|it| *it != "ALL");
        let number = |at: usize, all: u32| match argument(at) {
            None => Ok(all),
            Some(text) => narrow("the number in the path", &Value::from(text)),
        };
        let port_at = |at: usize| match argument(at) {
            None => Ok(PortNo::ANY),
            Some(text) => port("the port in the path", &Value::from(text), version),
        };
        let features = version.features();
        let most = match what {
            "port" | "queueconfig" | "meter" | "meterconfig" | "group" | "groupdesc"
            | "portdesc" => 1,
            "queue" => 2,
            _ => 0,
        };
        if arguments.len() > most {
            return Ok(None);
        }
        let ask = match what {
            "desc" => Ask::Multipart(M::Desc),
            "flow" | "flowdesc" => {
                let priority = filter.get("priority").filter(|it| it.as_i64() != Some(-1));
                let priority = priority.map(|it| integer("priority", it)).transpose()?;
                // No flow has a priority of more than 16 bits.
                let priority = priority.map(|it| u16::try_from(it).map_err(|_| wide(it)));
                Ask::Flows(flows(version, filter)?, priority.transpose()?)
            }
            "aggregateflow" => Ask::Multipart(M::Aggregate(flows(version, filter)?)),
            "table" => Ask::Multipart(M::Table),
            "port" => Ask::Multipart(M::PortStats(port_at(0)?)),
            "queue" => {
                let queue = number(1, u32::MAX)?;
                let queue_id = Some(queue).filter(|queue| *queue != u32::MAX);
                Ask::Multipart(M::Queue { port_no: port_at(0)?, queue_id })
            }
            "queueconfig" if !has_old_names(version) => Ask::QueueConfig(port_at(0)?),
            "tablefeatures" if features.table_features => {
                Ask::Multipart(M::TableFeatures(<_>::default()))
            }
            "meterfeatures" if features.meters => Ask::Multipart(M::MeterFeatures),
            "meterconfig" if features.meters => {
                Ask::Multipart(M::MeterConfig(number(0, MeterMod::ALL_METERS)?))
            }
            "meter" if features.meters => {
                Ask::Multipart(M::Meter(number(0, MeterMod::ALL_METERS)?))
            }
            "groupfeatures" if features.groups => Ask::Multipart(M::GroupFeatures),
            "groupdesc" if features.groups => Ask::Multipart(M::GroupDesc),
            "group" if features.groups => {
                Ask::Multipart(M::Group(number(0, GroupMod::ALL_GROUPS)?))
            }
            "portdesc" if features.port_desc => Ask::Multipart(M::PortDesc),
            "queueconfig" | "tablefeatures" | "meterfeatures" | "meterconfig" | "meter"
            | "groupfeatures" | "groupdesc" | "group" | "portdesc" | "queuedesc" | "meterdesc" => {
                return Err(OfctlError::Unsupported(what.to_owned()));
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { version, ask }))
    }

    /// Returns the request, without a transaction id.
    ///
    /// # Errors
    /// [`OfctlError`]: the version cannot express it.
    pub fn message(&self) -> Result<Vec<u8>, OfctlError> {
        let request = match &self.ask {
            Ask::Multipart(request) => request.clone(),
            Ask::Flows(flows, _) => MultipartRequest::Flow(flows.clone()),
            Ask::QueueConfig(port) => {
                return encoded(|room| QueueConfig::encode_request(*port, self.version, 0, room));
            }
        };
        encoded(|room| request.encode(self.version, 0, room))
    }

    /// Whether it asks for all flows of a switch. The answer may show only those with one priority.
    pub fn is_about_all_flows(&self) -> bool {
        let all = FlowStatsRequest::new(Match::new());
        matches!(&self.ask, Ask::Flows(flows, _) if *flows == all)
    }

    /// Writes the reply of the switch `dpid`: its messages, one behind the other.
    ///
    /// # Errors
    /// [`OfctlError::Reply`]
    pub fn json(&self, dpid: u64, messages: &[u8], own: &Own) -> Result<Value, OfctlError> {
        let priority = match self.ask {
            Ask::Flows(_, priority) => priority,
            _ => None,
        };
        let answer = reply::json(self.version, messages, own, priority)?;
        Ok(Value::Object([(dpid.to_string(), answer)].into_iter().collect()))
    }
}

fn wide(number: u64) -> OfctlError {
    OfctlError::Invalid(format!("priority is {number}; expected 0 to 65535"))
}

/// Reads which flows are asked for.
fn flows(version: Version, filter: &Value) -> Result<FlowStatsRequest, OfctlError> {
    let mut request = FlowStatsRequest::new(match_of(filter, version)?);
    request.table_id = table(filter, 0xff)?;
    request.out_port = port_of_key(filter, "out_port", version)?;
    if version.features().cookie_masks {
        request.out_group = group(filter, "out_group", request.out_group)?;
        request.cookie = of_key(filter, "cookie", 0)?;
        request.cookie_mask = of_key(filter, "cookie_mask", 0)?;
    }
    Ok(request)
}
