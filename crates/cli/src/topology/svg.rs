//! Draws the topology as SVG.
//!
//! Switches begin on a circle. Then links pull their ends together and all switches push each other away, in small steps
//! (Fruchterman and Reingold, "Graph Drawing by Force-directed Placement", 1991). There is no chance in it: the same
//! topology gives the same drawing. More than [`MOST_PLACED`] switches stay on the circle.

use std::collections::HashMap;
use std::f64::consts::TAU;
use std::fmt::Write as _;

use sdk::Dpid;
use sdk::services::topology::Endpoint;
use sdk::topology::Graph;
use view::topology::{has_both_directions, name_of, switches};

use super::links;

/// Space for each switch, in units of the drawing.
const SPACE: f64 = 110.0;

/// Steps of the placement, of a small network and at least.
const STEPS: usize = 300;
const LEAST_STEPS: usize = 20;

/// Pairs of switches that the placement looks at in all its steps.
const MOST_PAIRS: usize = 20_000_000;

/// Switches that are placed by their links: the time of a step grows with the square of their number.
const MOST_PLACED: usize = 2_000;

/// Margin around the switches.
const MARGIN: f64 = 80.0;

const STYLE: &str = "\
text{font:11px sans-serif;text-anchor:middle;dominant-baseline:central}\
rect{fill:#eef3f8;stroke:#345;rx:4}.drained{stroke-dasharray:4 3;fill:#fff}\
line{stroke:#789;stroke-width:1.5}.oneway{stroke-dasharray:5 4}.suspicious{stroke:#c22}";

/// Returns the drawing.
pub(super) fn write(graph: &Graph) -> String {
    let switches = switches(graph);
    let index: HashMap<Dpid, usize> =
        switches.iter().enumerate().map(|(place, switch)| (switch.dpid, place)).collect();
    let links = links::pairs(graph);
    let ends = |link: &sdk::services::topology::LinkRecord| {
        Some((*index.get(&link.from.dpid)?, *index.get(&link.to.dpid)?))
    };
    let edges: Vec<(usize, usize)> = links.iter().filter_map(ends).collect();
    let places = place(switches.len(), &edges);
    let size = |axis: usize| places.iter().map(|at| at[axis]).fold(0.0, f64::max) + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {:.0}\">\n<style>{STYLE}</style>\n",
        size(0),
        size(1)
    );
    for link in &links {
        let Some((from, to)) = ends(link) else { continue };
        let mut class = String::new();
        if !has_both_directions(link, graph) {
            class.push_str("oneway ");
        }
        if link.suspicious {
            class.push_str("suspicious");
        }
        let end = |at: Endpoint| {
            let name = graph.port(at).map(name_of).unwrap_or_default();
            escaped(&format!("{at} {name}"))
        };
        let _ = writeln!(
            out,
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"><title>{} - {}</title></line>",
            places[from][0] + MARGIN,
            places[from][1] + MARGIN,
            places[to][0] + MARGIN,
            places[to][1] + MARGIN,
            end(link.from),
            end(link.to),
        );
    }
    for (switch, [x, y]) in switches.iter().zip(&places) {
        let class = if switch.drained { "drained" } else { "" };
        let _ = writeln!(
            out,
            "<g><rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"136\" height=\"22\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            x + MARGIN - 68.0,
            y + MARGIN - 11.0,
            x + MARGIN,
            y + MARGIN,
            switch.dpid,
        );
    }
    out.push_str("</svg>\n");
    out
}

/// Places the switches, each coordinate 0 or more.
#[expect(clippy::cast_precision_loss, reason = "a table has few switches")]
fn place(count: usize, edges: &[(usize, usize)]) -> Vec<[f64; 2]> {
    let radius = SPACE * (count as f64).sqrt();
    let angle = |number: usize| TAU * number as f64 / count as f64;
    let mut places: Vec<[f64; 2]> = (0..count)
        .map(|number| [radius * angle(number).cos() * 1.4, radius * angle(number).sin()])
        .collect();
    let steps = match count {
        0..=MOST_PLACED => (MOST_PAIRS / (count * count).max(1)).clamp(LEAST_STEPS, STEPS),
        _ => 0,
    };
    for step in 0..steps {
        let heat = radius * 0.1 * (1.0 - step as f64 / steps as f64);
        let forces = forces(&places, edges);
        for (place, force) in places.iter_mut().zip(forces) {
            let length = force[0].hypot(force[1]).max(1e-9);
            for (value, force) in place.iter_mut().zip(force) {
                *value += force / length * length.min(heat);
            }
        }
    }
    for axis in 0..2 {
        let least = places.iter().map(|place| place[axis]).fold(f64::INFINITY, f64::min);
        for place in &mut places {
            place[axis] -= least;
        }
    }
    places
}

/// The force on each switch.
fn forces(places: &[[f64; 2]], edges: &[(usize, usize)]) -> Vec<[f64; 2]> {
    let mut forces = vec![[0.0; 2]; places.len()];
    let mut push = |one: usize, other: usize, strength: &dyn Fn(f64) -> f64| {
        let apart = [0, 1].map(|axis| places[one][axis] - places[other][axis]);
        let distance = apart[0].hypot(apart[1]).max(1.0);
        for axis in 0..2 {
            let force = apart[axis] / distance * strength(distance);
            forces[one][axis] += force;
            forces[other][axis] -= force;
        }
    };
    for one in 0..places.len() {
        for other in 0..one {
            push(one, other, &|distance| SPACE * SPACE / distance);
        }
    }
    for (one, other) in edges {
        push(*one, *other, &|distance| -distance * distance / SPACE);
    }
    forces
}

/// Returns text for XML.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}
