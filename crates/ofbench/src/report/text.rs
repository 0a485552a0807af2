//! Formats reports for people: as text, a few lines with aligned figures, and as a Markdown table.

use std::fmt::Write as _;

use super::{
    ConnectReport, FloodReport, IdleReport, LoadReport, Percentiles, Ratios, ReactionTimes, Spread,
};

/// The lines of a report: names and values.
pub type Rows = Vec<(String, String)>;

/// Formats rows as text with aligned values.
pub fn format_text(rows: &Rows) -> String {
    let mut text = String::new();
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<16} {value}");
    }
    text
}

/// Formats reports as a Markdown table: a column for each, headed by its name, and a row for each figure. A figure that a
/// report lacks is `-`.
pub fn format_markdown(columns: &[(&str, Rows)]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in columns.iter().flat_map(|(_, rows)| rows) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut text = String::from("|");
    let heads = columns.iter().map(|(head, _)| *head);
    let _ = writeln!(text, " | {} |", heads.map(cell).collect::<Vec<_>>().join(" | "));
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(columns.len()));
    for name in names {
        let _ = write!(text, "| {} |", cell(name));
        for (_, rows) in columns {
            let value = rows.iter().find(|(its, _)| its == name).map_or("-", |(_, value)| value);
            let _ = write!(text, " {} |", cell(value));
        }
        text.push('\n');
    }
    text
}

/// Returns a text that stays within its cell.
fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;")
}

/// Formats a figure: `12,345,678`, with two decimals below 100.
fn figure(figure: f64) -> String {
    grouped(figure, if figure.abs() < 100.0 { 2 } else { 0 })
}

/// Formats a number with this number of decimals, and with commas between thousands.
pub(crate) fn grouped(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let whole = text.find('.').unwrap_or(text.len());
    let mut grouped = String::new();
    for (place, digit) in text.char_indices() {
        let after = whole.saturating_sub(place);
        if place > 0 && after > 0 && after % 3 == 0 && text.as_bytes()[place - 1] != b'-' {
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

fn row(rows: &mut Rows, name: &str, value: &str) {
    rows.push((name.to_owned(), value.to_owned()));
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn count(count: u64) -> String {
    if count < 100 { count.to_string() } else { figure(count as f64) }
}

/// Returns the rows of the report of a load.
pub fn load_rows(load: &LoadReport) -> Rows {
    let mut rows = Rows::new();
    row(&mut rows, "answers/s", &spread(&load.answered_per_second));
    if load.flows.is_some() {
        row(&mut rows, "flow-mods/s", &spread(&load.flow_mods_per_second));
    }
    if let Some(latency) = &load.latency_us {
        row(&mut rows, "latency", &times(latency));
    }
    if let Some(barrier) = &load.barrier_us {
        row(&mut rows, "to the barrier", &times(barrier));
    }
    let per_switch = format!(
        "least {}/s, most {}/s",
        figure(load.per_switch.least),
        figure(load.per_switch.most)
    );
    row(&mut rows, "per switch", &per_switch);
    if let Some(worst) = &load.fairness {
        let (least, most, ms) = (count(worst.least), count(worst.most), worst.seconds * 1000.0);
        let span = format!("{:.2}: least {least}, most {most} in {ms:.0} ms", worst.ratio);
        row(&mut rows, "worst span", &span);
    }
    let counted = format!(
        "{} answers: {} flow-mods, {} packet-outs, {} of them floods",
        count(load.answered),
        count(load.flow_mods),
        count(load.packet_outs),
        count(load.floods)
    );
    row(&mut rows, "counted", &counted);
    if let Some(flows) = load.flows {
        row(&mut rows, "flows kept", &count(flows));
    }
    if load.unanswered + load.late > 0 {
        let lost = format!("{}, {} of them late", count(load.unanswered), count(load.late));
        row(&mut rows, "not answered", &lost);
    }
    if load.unasked > 0 {
        row(&mut rows, "not asked", &format!("{}, although due", count(load.unasked)));
    }
    if load.others > 0 {
        row(&mut rows, "other messages", &count(load.others));
    }
    if let Some(cpu) = load.cpu_seconds_per_million {
        row(&mut rows, "CPU", &format!("{cpu:.3} s per million answers"));
    }
    if load.errors > 0 {
        let first = load.first_error.as_deref().unwrap_or_default();
        row(&mut rows, "errors", &format!("{}, the first: {first}", count(load.errors)));
    }
    rows
}

/// Returns the rows of the report of connects.
pub fn connect_rows(connections: &ConnectReport) -> Rows {
    let mut rows = Rows::new();
    row(&mut rows, "all settled", &format!("after {:.3} s", connections.all_settled_seconds));
    row(&mut rows, "handshakes/s", &spread(&connections.handshakes_per_second));
    if let Some(handshake) = &connections.handshake_us {
        row(&mut rows, "handshake", &times(handshake));
    }
    if let Some(cpu) = connections.cpu_seconds_per_thousand {
        row(&mut rows, "CPU", &format!("{cpu:.3} s per thousand handshakes"));
    }
    rows
}

/// Returns the rows of the report of idle switches.
pub fn idle_rows(staying: &IdleReport) -> Rows {
    let mut rows = Rows::new();
    row(&mut rows, "all settled", &format!("after {:.3} s", staying.all_settled_seconds));
    row(&mut rows, "messages/s", &spread(&staying.messages_per_second));
    if let Some(percent) = staying.cpu_percent {
        row(&mut rows, "CPU", &format!("{percent:.2} % of a core"));
    }
    if let Some(bytes) = staying.resident_bytes_per_switch {
        row(&mut rows, "memory", &format!("{:.2} KiB a switch", bytes / 1024.0));
    }
    rows
}

/// Returns the rows of the report of a flood.
pub fn flood_rows(fairness: &FloodReport) -> Rows {
    let mut rows = Rows::new();
    reactions(&mut rows, "alone", &fairness.alone);
    reactions(&mut rows, "beside", &fairness.beside);
    row(&mut rows, "the flood", &format!("{}/s", spread(&fairness.flood_per_second)));
    row(&mut rows, "answered", &format!("{}/s", spread(&fairness.flood_answered_per_second)));
    let arps = format!("{} of {}", count(fairness.flood_arps_answered), count(fairness.flood_arps));
    row(&mut rows, "ARP among it", &arps);
    rows
}

fn reactions(rows: &mut Rows, when: &str, reactions: &ReactionTimes) {
    for (name, measured) in [
        ("echo", &reactions.echo_us),
        ("ARP", &reactions.arp_us),
        ("port", &reactions.port_us),
        ("handshake", &reactions.handshake_us),
    ] {
        if let Some(measured) = measured {
            row(rows, &format!("{name} {when}"), &times(measured));
        }
    }
    if reactions.unanswered > 0 {
        row(rows, &format!("lost {when}"), &count(reactions.unanswered));
    }
}

/// Returns the rows of the report of a network's switches.
pub fn switches_rows(counts: &[(&str, u64)]) -> Rows {
    let mut rows = Rows::new();
    for (name, counted) in counts {
        row(&mut rows, name, &count(*counted));
    }
    rows
}

/// Returns the row of the comparison of two controllers.
pub fn ratio_rows(ratios: &Ratios) -> Rows {
    let pairs: Vec<String> = ratios.pairs.iter().map(|ratio| format!("{ratio:.3}")).collect();
    let Spread { median, least, most } = ratios.ratio;
    let value = format!("{median:.3} ({least:.3} to {most:.3})  pairs {}", pairs.join(" "));
    vec![("A / B".to_owned(), value)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_grouped_by_thousands() {
        let shown = [0.0, 7.255, 123.0, 1234.4, 12_345_678.0, -1234.0].map(figure);
        assert_eq!(shown, ["0.00", "7.25", "123", "1,234", "12,345,678", "-1,234"]);
        assert_eq!(grouped(1_234_567.25, 3), "1,234,567.250");
    }

    #[test]
    fn text_and_markdown_have_the_same_rows() {
        let rows = |pairs: &[(&str, &str)]| -> Rows {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let first = rows(&[("answers/s", "12  13"), ("CPU", "0.5 s")]);
        assert_eq!(format_text(&first), "answers/s        12  13\nCPU              0.5 s\n");
        let second = rows(&[("answers/s", "14"), ("errors", "1, the first: a|b\n<c>\\")]);
        let markdown = "| | A | B |\n| --- | ---: | ---: |\n| answers/s | 12 13 | 14 |\n\
                        | CPU | 0.5 s | - |\n| errors | - | 1, the first: a\\|b &lt;c>\\\\ |\n";
        assert_eq!(format_markdown(&[("A", first), ("B", second)]), markdown);
    }
}
