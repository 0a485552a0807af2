//! A client library of Ryu's REST interface, `ryurest`, with Rosemary in Ryu's place: `make ryu` runs it.

use std::path::Path;

use anyhow::ensure;
use cli::lab::Of;
use rosemary_tests::net::{Net, SOON};
use rosemary_tests::{in_a_lab_for, ryu};

use super::all::LIMIT;

#[test]
#[ignore = "make ryu runs it"]
fn ryurest_reads_and_writes_over_ryus_rest_interface() {
    let packages = ryu::install_client().expect("ryurest is there");
    in_a_lab_for(LIMIT, move |lab| {
        let net = Net::start_with(lab, Of::V1_3, &["--ofctl-rest"])?;
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = project.join("system/ryu/client.py");
        let python = project.join("../target/python/bin/python3");
        let client = |what: &str| -> anyhow::Result<()> {
            let mut command = lab.command(&python);
            command.arg(&script).arg(what).env("PYTHONPATH", &packages);
            let output = command.env("PYTHONDONTWRITEBYTECODE", "1").output()?;
            ensure!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
            Ok(())
        };
        lab.wait_for("the owner of the flows answers", SOON, |evidence| {
            let url = "http://127.0.0.1:8080/stats/desc/1";
            let answer = lab.run("curl", &["-sf", "-m", "10", url]);
            evidence.0 = format!("{answer:?}");
            Ok(answer.is_ok().then_some(()))
        })?;
        client("read")?;
        client("write")?;
        let own = || -> anyhow::Result<usize> {
            let flows = net.s1.dump_flows()?;
            // In the band of the interface's owner.
            let is_own = |it: &&String| it.contains("priority=49") && it.contains("in_port=");
            Ok(flows.iter().filter(is_own).count())
        };
        ensure!(own()? == 1, "{:?}", net.s1.dump_flows());
        client("clear")?;
        ensure!(own()? == 0, "{:?}", net.s1.dump_flows());
        Ok(())
    });
}
