//! Runs `ofbench measure-switch` and prints its result.

use std::net::TcpListener;

use anyhow::{Context as _, bail};

use super::stop_at_signals;
use crate::args::MeasureSwitchArgs;
use crate::measure::{self, Document};
use crate::report;
use crate::terminal::{self, StatusLine};

/// Measures the first switch that connects.
///
/// # Errors
/// No switch connected, or a part of the measurement failed; the result is printed in that case, too.
pub(super) fn run(args: &MeasureSwitchArgs) -> anyhow::Result<()> {
    let plan = args.plan()?;
    if let Some(dir) = &args.plot {
        measure::prepare(dir, args.force)?;
    }
    let listener = TcpListener::bind(args.listen)
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    listener.set_nonblocking(true)?;
    terminal::note(format_args!("waiting for a switch on {}", listener.local_addr()?));
    let stop = stop_at_signals()?;
    let mut line = StatusLine::new();
    let measured = measure::run(&listener, &plan, &stop, &mut |step| line.show(step))?;
    line.clear();
    if args.json {
        let document = Document::new(&plan, &measured);
        terminal::print(format_args!("{}\n", serde_json::to_string_pretty(&document)?))?;
    } else if args.markdown {
        let column = [(measured.switch.dpid.as_str(), measure::rows(&measured))];
        terminal::print(report::format_markdown(&column))?;
    } else {
        terminal::print(report::format_text(&measure::rows(&measured)))?;
    }
    if let Some(dir) = &args.plot {
        measure::draw(dir, &measured)?;
    }
    if let Some(why) = &measured.ended {
        bail!("the measurement ended early: {why}");
    }
    if !measured.is_complete() {
        bail!("a part of the measurement failed; its row has the reason");
    }
    Ok(())
}
