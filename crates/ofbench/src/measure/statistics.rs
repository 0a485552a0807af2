//! Delay of statistics, by the number of flows that they describe.

use openflow::{Match, MultipartReply, MultipartRequest, PortNo, ReplyBody};

use super::bench::Bench;
use super::row::{Row, Unit};
use super::session::{BULK, COOKIE, invalid};
use super::trouble::Trouble;

/// The numbers of flows.
const FLOWS: [usize; 3] = [10, 100, 1000];

/// Measures each kind of statistics with each number of flows, and compares the reported number.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Row>, Trouble> {
    let mut rows = Vec::new();
    for flows in FLOWS {
        if flows > bench.plan.max_flows {
            break;
        }
        bench.session.delete_all()?;
        let first = bench.new_flows(u32::try_from(flows).unwrap_or(0));
        for flow in (first..).take(flows) {
            bench.queue_forwarding(flow, 100)?;
        }
        bench.session.apply("flow-mods", flows, BULK)?;
        rows.extend(with_flows(bench, flows)?);
    }
    Ok(rows)
}

fn with_flows(bench: &mut Bench<'_>, flows: usize) -> Result<Vec<Row>, Trouble> {
    let runs = (bench.plan.runs / 10).clamp(5, 100);
    let (mut all, mut sum, mut of_ports) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..runs {
        (bench.progress)(&format!("statistics of {flows} flows: {run} of {runs}"));
        let own = bench.own_flows(Match::new());
        let request = MultipartRequest::Flow(own.clone());
        let (sent, parts) = bench.session.multipart(&request, BULK)?;
        let mut listed = 0;
        for part in &parts {
            let ReplyBody::Flow(entries) =
                MultipartReply::decode(&part.bytes).map_err(invalid)?.body
            else {
                return Err(Trouble::Invalid("the reply to a flow request is another".into()));
            };
            listed += entries.iter().filter(|entry| entry.cookie == COOKIE).count();
        }
        if listed != flows {
            return Err(Trouble::Contradiction(format!(
                "it lists {listed} flows after it accepted {flows}"
            )));
        }
        all.extend(parts.last().map(|part| part.at.us_since(sent)));
        let (sent, parts) = bench.session.multipart(&MultipartRequest::Aggregate(own), BULK)?;
        let ReplyBody::Aggregate(stats) =
            MultipartReply::decode(&parts[0].bytes).map_err(invalid)?.body
        else {
            return Err(Trouble::Invalid("the reply to an aggregate request is another".into()));
        };
        if usize::try_from(stats.flow_count) != Ok(flows) {
            let reported = stats.flow_count;
            return Err(Trouble::Contradiction(format!(
                "it reports {reported} flows after it accepted {flows}"
            )));
        }
        sum.push(parts[0].at.us_since(sent));
        let (sent, parts) =
            bench.session.multipart(&MultipartRequest::PortStats(PortNo::ANY), BULK)?;
        of_ports.extend(parts.last().map(|part| part.at.us_since(sent)));
    }
    let row = |what: &str, samples| {
        Row::of(format!("statistics, {flows} flows: {what}"), Unit::Us, samples)
    };
    Ok(vec![row("each flow", all), row("aggregate", sum), row("ports", of_ports)])
}
