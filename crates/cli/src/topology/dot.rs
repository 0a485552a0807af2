//! Writes the topology in the language of Graphviz.

use std::fmt::Write as _;

use sdk::topology::Graph;
use view::topology::{has_both_directions, name_of, switches};

use super::links;

/// Returns a graph with a node per switch and an edge per link.
pub(super) fn write(graph: &Graph) -> String {
    let mut out =
        String::from("graph topology {\n    node [shape=box, fontname=\"sans-serif\"];\n");
    for switch in switches(graph) {
        let style = if switch.drained { ", style=dashed" } else { "" };
        let _ = writeln!(out, "    {} [label={}{style}];", id(switch.dpid), id(switch.dpid));
    }
    for link in links::pairs(graph) {
        let label = |at| {
            let port = graph.port(at);
            port.map_or_else(
                || at.port.to_string(),
                |port| format!("{} {}", at.port, name_of(port)),
            )
        };
        let style = if has_both_directions(&link, graph) { "" } else { ", style=dashed" };
        let colour = if link.suspicious { ", color=red" } else { "" };
        let _ = writeln!(
            out,
            "    {} -- {} [taillabel={}, headlabel={}{style}{colour}];",
            id(link.from.dpid),
            id(link.to.dpid),
            quoted(&label(link.from)),
            quoted(&label(link.to)),
        );
    }
    out.push_str("}\n");
    out
}

fn id(dpid: sdk::Dpid) -> String {
    quoted(&dpid.to_string())
}

/// Returns a string of the language: a quotation mark would end it, and a backslash begins an escape.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
