//! Formats reports as text: a few lines with aligned figures.

use std::fmt::Write as _;

use super::{
    ConnectReport, FloodReport, IdleReport, LoadReport, Percentiles, Ratios, ReactionTimes, Spread,
};

/// Formats a figure: `12,345,678`, with two decimals below 100.
fn figure(figure: f64) -> String {
    if figure.abs() < 100.0 {
        return format!("{figure:.2}");
    }
    let digits = format!("{figure:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        let after = digits.len() - place;
        if place > 0 && after % 3 == 0 && digits.as_bytes()[place - 1] != b'-' {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn spread(spread: &Spread) -> String {
    format!("{} ({} to {})", figure(spread.median), figure(spread.least), figure(spread.most))
}

fn times(times: &Percentiles) -> String {
    format!(
        "p50 {}  p90 {}  p99 {}  p99.9 {}  max {} us",
        figure(times.p50),
        figure(times.p90),
        figure(times.p99),
        figure(times.p99_9),
        figure(times.max)
    )
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<16} {value}");
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn count(count: u64) -> String {
    if count < 100 { count.to_string() } else { figure(count as f64) }
}

/// Formats the report of a load.
pub fn format_load(load: &LoadReport) -> String {
    let mut text = String::new();
    line(&mut text, "answers/s", &spread(&load.answered_per_second));
    if load.flows.is_some() {
        line(&mut text, "flow-mods/s", &spread(&load.flow_mods_per_second));
    }
    if let Some(latency) = &load.latency_us {
        line(&mut text, "latency", &times(latency));
    }
    if let Some(barrier) = &load.barrier_us {
        line(&mut text, "to the barrier", &times(barrier));
    }
    let per_switch = format!(
        "least {}/s, most {}/s",
        figure(load.per_switch.least),
        figure(load.per_switch.most)
    );
    line(&mut text, "per switch", &per_switch);
    if let Some(worst) = &load.fairness {
        let (least, most, ms) = (count(worst.least), count(worst.most), worst.seconds * 1000.0);
        let span = format!("{:.2}: least {least}, most {most} in {ms:.0} ms", worst.ratio);
        line(&mut text, "worst span", &span);
    }
    let counted = format!(
        "{} answers: {} flow-mods, {} packet-outs, {} of them floods",
        count(load.answered),
        count(load.flow_mods),
        count(load.packet_outs),
        count(load.floods)
    );
    line(&mut text, "counted", &counted);
    if let Some(flows) = load.flows {
        line(&mut text, "flows kept", &count(flows));
    }
    if load.unanswered + load.late > 0 {
        let lost = format!("{}, {} of them late", count(load.unanswered), count(load.late));
        line(&mut text, "not answered", &lost);
    }
    if load.unasked > 0 {
        line(&mut text, "not asked", &format!("{}, although due", count(load.unasked)));
    }
    if load.others > 0 {
        line(&mut text, "other messages", &count(load.others));
    }
    if let Some(cpu) = load.cpu_seconds_per_million {
        line(&mut text, "CPU", &format!("{cpu:.3} s per million answers"));
    }
    if load.errors > 0 {
        let first = load.first_error.as_deref().unwrap_or_default();
        line(&mut text, "errors", &format!("{}, the first: {first}", count(load.errors)));
    }
    text
}

/// Formats the report of connects.
pub fn format_connect(connections: &ConnectReport) -> String {
    let mut text = String::new();
    line(&mut text, "all settled", &format!("after {:.3} s", connections.all_settled_seconds));
    line(&mut text, "handshakes/s", &spread(&connections.handshakes_per_second));
    if let Some(handshake) = &connections.handshake_us {
        line(&mut text, "handshake", &times(handshake));
    }
    if let Some(cpu) = connections.cpu_seconds_per_thousand {
        line(&mut text, "CPU", &format!("{cpu:.3} s per thousand handshakes"));
    }
    text
}

/// Formats the report of idle switches.
pub fn format_idle(staying: &IdleReport) -> String {
    let mut text = String::new();
    line(&mut text, "all settled", &format!("after {:.3} s", staying.all_settled_seconds));
    line(&mut text, "messages/s", &spread(&staying.messages_per_second));
    if let Some(percent) = staying.cpu_percent {
        line(&mut text, "CPU", &format!("{percent:.2} % of a core"));
    }
    if let Some(bytes) = staying.resident_bytes_per_switch {
        line(&mut text, "memory", &format!("{:.2} KiB a switch", bytes / 1024.0));
    }
    text
}

/// Formats the report of a flood.
pub fn format_flood(fairness: &FloodReport) -> String {
    let mut text = String::new();
    reactions(&mut text, "alone", &fairness.alone);
    reactions(&mut text, "beside", &fairness.beside);
    line(&mut text, "the flood", &format!("{}/s", spread(&fairness.flood_per_second)));
    line(&mut text, "answered", &format!("{}/s", spread(&fairness.flood_answered_per_second)));
    let arps = format!("{} of {}", count(fairness.flood_arps_answered), count(fairness.flood_arps));
    line(&mut text, "ARP among it", &arps);
    text
}

fn reactions(text: &mut String, when: &str, reactions: &ReactionTimes) {
    for (name, measured) in [
        ("echo", &reactions.echo_us),
        ("ARP", &reactions.arp_us),
        ("port", &reactions.port_us),
        ("handshake", &reactions.handshake_us),
    ] {
        if let Some(measured) = measured {
            line(text, &format!("{name} {when}"), &times(measured));
        }
    }
    if reactions.unanswered > 0 {
        line(text, &format!("lost {when}"), &count(reactions.unanswered));
    }
}

/// Formats the report of a network's switches: names and counts.
pub fn format_switches(counts: &[(&str, u64)]) -> String {
    let mut text = String::new();
    for (name, counted) in counts {
        line(&mut text, name, &count(*counted));
    }
    text
}

/// Formats the comparison of two controllers.
pub fn format_ratios(ratios: &Ratios) -> String {
    let pairs: Vec<String> = ratios.pairs.iter().map(|ratio| format!("{ratio:.3}")).collect();
    let Spread { median, least, most } = ratios.ratio;
    format!("A / B            {median:.3} ({least:.3} to {most:.3})  pairs {}\n", pairs.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_grouped_by_thousands() {
        let shown = [0.0, 7.255, 123.0, 1234.4, 12_345_678.0, -1234.0].map(figure);
        assert_eq!(shown, ["0.00", "7.25", "123", "1,234", "12,345,678", "-1,234"]);
    }
}
