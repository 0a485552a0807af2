//! Apps in WebAssembly: the template of a switch in C forwards, and a faulty app ends alone.
//!
//! Needs the programs of `make wasm`, clang and lld.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use cli::lab::{Lab, LabError, Of};
use rosemary_tests::apps::configure;
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, over_versions};

/// Compiles an app in C to a module; returns its configuration entry.
fn module(lab: &Lab, name: &str, source: &Path, more: &[&str]) -> Result<String, LabError> {
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/sdk/c");
    let [own, wasm, shim] =
        ["", "wasm", "wasm/rosemary_wasm.c"].map(|it| headers.join(it).display().to_string());
    let object = lab.files().join(format!("{name}.wasm")).display().to_string();
    let flags = [
        "--target=wasm32",
        "-O1",
        "-mbulk-memory",
        "-nostdlib",
        "-Wall",
        "-Wextra",
        "-Wl,--no-entry,--stack-first",
    ];
    let paths = ["-I", &wasm, "-I", &own, "-o", &object, &source.display().to_string(), &shim];
    lab.run("clang", &[&flags[..], more, &paths].concat())?;
    Ok(format!("[[app]]\nname = \"{name}\"\nobject = \"{object}\"\n"))
}

over_versions!(switch_in_c_forwards_as_a_module, |of| in_a_lab(move |lab| {
    let template = include_str!("../../crates/cli/src/scaffold/switch/app.c.txt");
    let source = lab.files().join("switch.c");
    fs::write(&source, template.replace("@NAME@", "switch").replace("@VERSION@", "0.1.0"))?;
    configure(&[&module(lab, "switch", &source, &[])?])?;
    let mut net = Net::start(lab, of)?;
    assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.lost(), 0);
    assert_eq!(net.flows_to(&net.h2)?.len(), 1, "{:#?}", net.s1.dump_flows()?);
    let status = net.status()?;
    let app = status.app("switch").context("it runs")?;
    assert_eq!((app.host.as_str(), app.restarts), ("user", 0), "a zone");
    let sum = lab.run("sha256sum", &[&lab.files().join("switch.wasm").display().to_string()])?;
    assert_eq!(app.sha256.as_deref(), sum.split_whitespace().next(), "the digest of the module");
    Ok(())
}));

#[test]
fn faulty_module_ends_alone() {
    for (way, why) in [
        (1, "trapped: wasm trap: wasm `unreachable` instruction executed"),
        (2, "used more than 10 ms of processor time in one call"),
        (3, "trapped: wasm trap: wasm `unreachable` instruction executed"),
        (4, "trapped: wasm trap: out of bounds memory access"),
    ] {
        in_a_lab(move |lab| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps/faulty.c");
            let faulty = module(lab, "faulty", &source, &[&format!("-DWAY={way}")])?;
            let faulty = format!(
                "{faulty}stage = \"observe\"\noptions = {{ memory-mib = \"1\" }}\n[[app]]\nname = \"{APP}\"\n"
            );
            configure(&[&faulty])?;
            let mut net = Net::start(lab, Of::V1_3)?;
            net.h1.knows(&net.h2)?;
            net.h2.knows(&net.h1)?;
            assert!(net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0);
            let after = net.rosemary.wait_for("it is started again", SOON, |status| {
                (status.app("faulty")?.restarts >= 1).then(|| status.clone())
            })?;
            let ended = after.app("faulty").and_then(|it| it.last_exit.clone());
            println!("{way}: {ended:?}");
            net.rosemary.wait_for_log(&["faulty", why, "fail"], SOON)?;
            assert_eq!(after.programs.kernel.restarts, 0);
            assert_eq!(after.app(APP).map(|it| it.restarts), Some(0));
            assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.lost(), 0);
            Ok(())
        });
    }
}
