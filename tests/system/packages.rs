//! App packages: from creation to a ping, and rejections on the way.

use std::fs;

use anyhow::{Context as _, ensure};
use cli::lab::{Of, Rosemary};
use control::operator::ProgramState;
use rosemary_tests::developer::{
    CONFIG, Developer, GRANTED, INSTALLED, entry, refused, rosemary, trust,
};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, rosemary_binary, schema, skip};
use rustix::process::Signal;

const HUB: &str = "[[app]]\nname = \"hub\"\n";

#[test]
fn signed_app_installs_and_runs() {
    in_a_lab(|lab| {
        let joe = Developer::new(lab, "joe")?;
        let package = joe.package(lab, "hub", "")?;
        trust(&[&joe.trust("")], "")?;
        let told = rosemary(lab, &["app", "verify", "--json", &package])?;
        schema::check("package", &told)?;
        assert!(told.contains(r#""name":"hub","version":"0.1.0","signed_by":"joe""#), "{told}");
        let list = || rosemary(lab, &["app", "list", "--json"]);
        assert_eq!(list()?, "[]\n");
        rosemary(lab, &["app", "install", &package])?;
        assert!(list()?.contains(r#""refused":null"#), "{}", list()?);
        trust(&[&joe.trust("")], HUB)?;

        let up = Rosemary::start_with(lab, &rosemary_binary(), &[])?;
        let mut net = Net::of(lab, Of::V1_3, up)?;
        assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
        let status = net.status()?;
        let app = status.app("hub").context("it runs")?;
        assert_eq!((app.origin.as_str(), app.signed_by.as_deref()), ("package", Some("joe")));
        let object = lab.run("sha256sum", &[&format!("{}/libhub.so", joe.dir("hub").display())])?;
        assert_eq!(app.sha256.as_deref(), object.split_whitespace().next());
        assert!(!net.rosemary.log().contains("UNSIGNED"));
        net.rosemary.stop(Signal::TERM)?;

        rosemary(lab, &["app", "remove", "hub"])?;
        let error = refused(lab, &["up"])?;
        assert!(
            error.contains("the app hub is missing; looked for /var/lib/rosemary/apps"),
            "{error}"
        );
        let error = refused(lab, &["app", "remove", "hub"])?;
        assert!(error.contains("rosemary app list"), "{error}");
        Ok(())
    });
}

#[test]
fn older_or_different_package_needs_a_confirmation() {
    in_a_lab(|lab| {
        let joe = Developer::new(lab, "joe")?;
        trust(&[&joe.trust("")], "")?;
        let package = joe.package(lab, "hub", "")?;
        rosemary(lab, &["app", "install", &package])?;
        rosemary(lab, &["app", "install", &package])?; // the same again
        let manifest = joe.dir("hub").join("app.toml");
        let first = fs::read_to_string(&manifest)?;
        let (dir, home) = (joe.dir("hub").display().to_string(), joe.home.display().to_string());
        let source = joe.dir("hub").join("hub.c");
        let rebuilt = |text: &str, version: &str| -> anyhow::Result<String> {
            fs::write(&manifest, text)?;
            let code = fs::read_to_string(&source)?;
            fs::write(&source, code.replace("0.1.0", version))?;
            let package = rosemary(lab, &["app", "build", &dir, "--out", &home])?;
            joe.sign(lab, package.trim())?;
            Ok(package.trim().to_owned())
        };
        let different = rebuilt(&format!("{first}# another comment\n"), "0.1.0")?;
        let error = refused(lab, &["app", "install", &different])?;
        assert!(
            error.contains("a different package of hub 0.1.0") && error.contains("--yes"),
            "{error}"
        );
        let text = first.replace("0.1.0", "0.0.9");
        let error = rebuilt(&text, "0.1.0").unwrap_err().to_string();
        assert!(
            error.contains("the version in app.toml is 0.0.9, and in the object 0.1.0"),
            "{error}"
        );
        let older = rebuilt(&text, "0.0.9")?;
        let error = refused(lab, &["app", "install", &older])?;
        assert!(error.contains("0.0.9 is an older version"), "{error}");
        rosemary(lab, &["app", "install", "--yes", &older])?;
        rosemary(lab, &["app", "install", &different])?; // a newer version
        Ok(())
    });
}

#[test]
fn packages_are_compatible_with_minisign() {
    in_a_lab(|lab| {
        let joe = Developer::new(lab, "joe")?;
        let package = joe.package(lab, "hub", "")?;
        if lab.run("minisign", &["-v"]).is_err() {
            skip(&anyhow::anyhow!("minisign is not installed; type: apt-get install minisign"));
            return Ok(());
        }
        let key = joe.public()?;
        let said = lab.run("minisign", &["-Vm", &package, "-P", &key])?;
        assert!(said.contains("Signature and comment signature verified"), "{said}");
        println!("{said}");

        // With a key of the tool, whose password derivation takes a while.
        let (public, secret) = (joe.home.join("m.pub"), joe.home.join("m.key"));
        let (public, secret) = (public.display().to_string(), secret.display().to_string());
        let twice = "yes 'mauve otter lights nine lamps' | head -n 2";
        lab.run("sh", &["-c", &format!("{twice} | minisign -G -p {public} -s {secret}")])?;
        let sign = ["app", "sign", &package, "--key", &secret, "--password-file", &joe.password];
        rosemary(lab, &sign)?;
        lab.run("minisign", &["-Vm", &package, "-p", &public])?;
        let key = fs::read_to_string(&public)?.lines().nth(1).context("a key")?.to_owned();
        trust(&[&entry("tool", &key, GRANTED)], "")?;
        rosemary(lab, &["app", "install", &package])?;
        Ok(())
    });
}

#[test]
fn each_invalid_package_has_its_own_error() {
    in_a_lab(|lab| {
        let [joe, eve] = ["joe", "eve"].map(|name| Developer::new(lab, name));
        let (joe, eve) = (joe?, eve?);
        let package = joe.package(lab, "hub", "")?;
        let signature = format!("{package}.minisig");
        let verify = || refused(lab, &["app", "verify", &package]);
        let says = |error: anyhow::Result<String>, words: &[&str]| -> anyhow::Result<()> {
            let error = error?;
            println!("{}", error.trim_end());
            ensure!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
            Ok(())
        };
        trust(&[&eve.trust("")], "")?;
        says(verify(), &["which no [[trust]] in the configuration has"])?;
        trust(&[&joe.trust("revoked = true\n")], "")?;
        says(verify(), &["which was revoked", "rosemary app remove"])?;
        let sum = lab.run("sha256sum", &[&package])?;
        let sum = sum.split_whitespace().next().context("a digest")?;
        trust(&[&joe.trust(&format!("revoked-packages = [\"{sum}\"]\n"))], "")?;
        says(verify(), &["this package was revoked", sum])?;
        trust(&[&joe.trust("apps = [\"firewall\"]\n")], "")?;
        says(verify(), &["asks to be called hub", "whose `apps` are firewall"])?;
        trust(&[&joe.trust("stages = [\"observe\"]\n")], "")?;
        says(verify(), &["asks to be in the stage control"])?;
        trust(&[&entry("joe", &joe.public()?, "capabilities = [\"packet-out\"]\n")], "")?;
        says(
            verify(),
            &[
                "asks to have flow.write",
                "whose `capabilities` are packet-in, packet-out",
                "Add it there",
            ],
        )?;

        trust(&[&joe.trust(""), &eve.trust("")], "")?;
        let (good, bytes) = (fs::read(&signature)?, fs::read(&package)?);
        fs::remove_file(&signature)?;
        says(verify(), &["it is not signed", "hub-0.1.0.rosemary.minisig"])?;
        fs::write(&signature, "junk")?;
        says(verify(), &["its signature cannot be read"])?;
        fs::write(&signature, &good)?;
        let mut changed = bytes.clone();
        changed[3000] ^= 1;
        fs::write(&package, &changed)?;
        says(verify(), &["does not fit", "changed after it had been signed"])?;
        fs::write(&package, &bytes)?;
        // Eve's key with joe's key id in her signature.
        eve.sign(lab, &package)?;
        rosemary(lab, &["app", "verify", &package])?;
        fs::write(&signature, with_number_of(&fs::read_to_string(&signature)?, &good)?)?;
        says(verify(), &["does not fit", "who does not have that key"])?;
        fs::write(&signature, &good)?;
        rosemary(lab, &["app", "install", &package])?;

        // The same errors if it was installed before the operator changed the configuration.
        let check = || refused(lab, &["up", "--check"]);
        trust(&[&joe.trust("revoked = true\n")], HUB)?;
        says(check(), &["the app hub cannot run", "which was revoked", "app disable hub"])?;
        let more = format!("{HUB}capabilities = [\"flow.write.any\"]\n");
        trust(&[&joe.trust("")], &more)?;
        says(check(), &["asks to have flow.write.any", "\"joe\" allows"])?;
        fs::copy(INSTALLED, "/var/lib/rosemary/apps/firewall.rosemary")?;
        let minisig = format!("{INSTALLED}.minisig");
        fs::copy(minisig, "/var/lib/rosemary/apps/firewall.rosemary.minisig")?;
        trust(&[&joe.trust("")], "[[app]]\nname = \"firewall\"\n")?;
        says(check(), &["of the app hub, not of firewall"])?;
        // A rejected package that is not enabled does not prevent the start.
        trust(&[&joe.trust("")], "[[app]]\nname = \"firewall\"\nenabled = false\n")?;
        Rosemary::start_with(lab, &rosemary_binary(), &[])?;
        Ok(())
    });
}

#[test]
fn corrupted_installed_package_does_not_start() {
    in_a_lab(|lab| {
        let joe = Developer::new(lab, "joe")?;
        let package = joe.package(lab, "hub", "")?;
        trust(&[&joe.trust("")], "")?;
        rosemary(lab, &["app", "install", &package])?;
        trust(&[&joe.trust("")], HUB)?;
        Rosemary::start_with(lab, &rosemary_binary(), &[])?.stop(Signal::TERM)?;
        let mut refusals = 0;
        // The crates package and security try every byte, without processes.
        for (path, step) in [(INSTALLED.to_owned(), 997), (format!("{INSTALLED}.minisig"), 23)] {
            let bytes = fs::read(&path)?;
            let last = bytes.len() - 1;
            for at in (0..bytes.len()).step_by(step).chain([last]) {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                fs::write(&path, &flipped)?;
                let error = refused(lab, &["up", "--check"])?;
                ensure!(error.contains("the app hub cannot run"), "{path}, byte {at}: {error}");
                refusals += 1;
            }
            fs::write(&path, &bytes)?;
        }
        println!("{refusals} refused");
        assert!(refusals > 30);
        Rosemary::start_with(lab, &rosemary_binary(), &[])?;
        Ok(())
    });
}

/// An operator can start the rest of the network and repair the app while it runs. Its guard stays strict.
#[test]
fn app_of_a_refused_package_is_held_and_the_others_run() {
    in_a_lab(|lab| {
        let joe = Developer::new(lab, "joe")?;
        let package = joe.package(lab, "wall", "stage = \"guard\"\n")?;
        let apps = "[[app]]\nname = \"wall\"\n[[app]]\nname = \"learning-switch\"\n";
        let elsewhere = lab.files().join("elsewhere.toml").display().to_string();
        let guard = "stages = [\"guard\"]\n";
        let write = |keys: &str| fs::write(&elsewhere, joe.trust(&format!("{guard}{keys}")) + apps);
        write("")?;
        let installed = ["app", "install", "--config", &elsewhere, &package];
        rosemary(lab, &installed)?;
        let config = ["--config", elsewhere.as_str()];
        Rosemary::start_with(lab, &rosemary_binary(), &config)?.stop(Signal::TERM)?;

        write("revoked = true\n")?;
        let up = Rosemary::start_with(lab, &rosemary_binary(), &config)?;
        let mut net = Net::of(lab, Of::V1_3, up)?;
        let status = net.status()?;
        let wall = status.app("wall").context("it is listed")?;
        let why = wall.last_exit.clone().context("a reason")?;
        ensure!(wall.state == ProgramState::Held && wall.stage == "guard", "{wall:?}");
        let why = format!("{why:?}");
        ensure!(why.contains("was revoked") && why.contains(&elsewhere), "{why}");
        assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.received, 0, "it fails closed");
        let restart = rosemary(lab, &["app", "restart", "wall"]);
        let error = restart.err().context("it is refused")?.to_string();
        ensure!(error.contains("was revoked") && error.contains("rosemary reload"), "{error}");

        // Without --config: the running instance says which file decides.
        let error = refused(lab, &["app", "install", &package])?;
        ensure!(error.contains(&elsewhere) && error.contains("was revoked"), "{error}");
        rosemary(lab, &["app", "disable", "wall"])?;
        lab.wait_for("packets pass", SOON, |_| {
            Ok((net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0).then_some(()))
        })?;
        rosemary(lab, &["reload", "--dry-run"])?; // without the app nothing is wrong
        net.rosemary.stop(Signal::TERM)?;

        // A reload starts it as soon as its package is valid.
        fs::remove_file("/var/lib/rosemary/enabled.json")?;
        net.rosemary = Rosemary::start_with(lab, &rosemary_binary(), &config)?;
        write("")?;
        rosemary(lab, &["reload"])?;
        net.rosemary.wait_for("the app runs", SOON, |status| {
            (status.app("wall")?.state == ProgramState::Running).then_some(())
        })?;
        Ok(())
    });
}

#[test]
fn unsigned_object_requires_a_flag() {
    in_a_lab(|lab| {
        let joe = Developer::new(lab, "joe")?;
        joe.package(lab, "hub", "")?;
        let object = joe.dir("hub").join("libhub.so");
        fs::write(CONFIG, format!("{HUB}object = \"{}\"\n", object.display()))?;
        let error = refused(lab, &["up"])?;
        for words in
            ["which has no signature", "rosemary up --allow-unsigned", "rosemary app build"]
        {
            assert!(error.contains(words), "{error}");
        }
        let error = refused(lab, &["up", "--allow-unsigned", "--plain", "any"])?;
        assert!(error.contains("remove one of the two"), "{error}");
        let mut up = Rosemary::start_with(lab, &rosemary_binary(), &["--allow-unsigned"])?;
        up.wait_for_log(&["WARN", "UNSIGNED", "hub"], SOON)?;
        let apps = rosemary(lab, &["apps", "--json"])?;
        assert!(apps.contains(r#""origin":"unsigned","signed_by":null"#), "{apps}");
        Ok(())
    });
}

#[test]
fn replaced_developer_changes_the_app_number() {
    in_a_lab(|lab| {
        let [joe, eve] = ["joe", "eve"].map(|name| Developer::new(lab, name));
        let (joe, eve) = (joe?, eve?);
        let trusted = [joe.trust(""), eve.trust("")];
        let trusted: Vec<&str> = trusted.iter().map(String::as_str).collect();
        trust(&trusted, HUB)?;
        let number = |package: &str| -> anyhow::Result<u16> {
            rosemary(lab, &["app", "install", package])?;
            let mut up = Rosemary::start_with(lab, &rosemary_binary(), &[])?;
            let number = up.wait_for("it runs", SOON, |it| it.app("hub").map(|it| it.number))?;
            up.stop(Signal::TERM)?;
            Ok(number)
        };
        let packages = (joe.package(lab, "hub", "")?, eve.package(lab, "hub", "")?);
        let of_joe = number(&packages.0)?;
        let error = refused(lab, &["app", "install", &packages.1])?;
        assert!(error.contains("was signed by joe") && error.contains("app remove hub"), "{error}");
        rosemary(lab, &["app", "remove", "hub"])?;
        assert_eq!(number(&packages.1)?, of_joe + 1);
        rosemary(lab, &["app", "remove", "hub"])?;
        assert_eq!(number(&packages.0)?, of_joe);
        Ok(())
    });
}

/// Returns the signature `text` with the key id of `other`.
fn with_number_of(text: &str, other: &[u8]) -> anyhow::Result<String> {
    let other = std::str::from_utf8(other)?;
    let line = |text: &str| text.lines().nth(1).map(ToOwned::to_owned).context("a signature");
    let (ours, its) = (line(text)?, line(other)?);
    // The key id ends in the tenth byte, which is in the fourteenth character.
    Ok(text.replacen(&ours, &format!("{}{}", &its[..14], &ours[14..]), 1))
}
