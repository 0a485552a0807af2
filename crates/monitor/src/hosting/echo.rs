//! A hosting for tests, which shows what a further hosting with zones needs: this file and a row of `HOSTS`.
//!
//! Its zone, which a test plays, expects an object that begins with `echo`, an option and a socket.

use std::os::unix::ffi::OsStringExt as _;

use control::hosting::{Hosting, Properties};
use control::zone::{GuestSettings, ZoneReply};
use supervisor::program::Executable;
use supervisor::spec::{AppSpec, Runtime};
use sys::channel::Channel;

use super::{Host, OtherFiles};
use crate::error::StartError;
use crate::installation::Installation;
use crate::object::Object;

/// The row of the hosting.
const ROW: Properties = Properties {
    name: "echo",
    language: "Echo",
    extension: Some("echo"),
    keys: &["options", "listen"],
    ..*Hosting::USER.properties()
};

/// The hosting.
pub(super) const ECHO: Hosting = Hosting::of(&ROW);

/// The variable that says that the test harness plays a zone.
const NAME: &str = "ROSEMARY_TEST_ECHO";

/// The monitor's part of the hosting.
#[derive(Debug)]
pub(super) struct Echo;

impl Host for Echo {
    fn runtime(&self, _app: &str, _installation: &Installation) -> Result<Runtime, StartError> {
        let test = std::env::current_exe().unwrap().into_os_string().into_vec();
        let test = String::from_utf8(test).unwrap();
        let play = "--ignored --exact hosting::echo::play --nocapture";
        let script = format!("{NAME}=1 RUST_TEST_THREADS=2 exec '{test}' {play}");
        let program = Executable { path: "/bin/sh".into(), args: vec!["-c".into(), script.into()] };
        Ok(Runtime {
            host: ECHO,
            program,
            read: vec!["/usr/share/echo".into()],
            modules: vec![],
            kernel: None,
        })
    }

    fn check(&self, object: &[u8]) -> Result<(), &'static str> {
        if object.starts_with(b"echo") { Ok(()) } else { Err("it does not begin with echo") }
    }

    fn remedy(&self) -> &'static str {
        "write echo at its beginning"
    }

    fn settings(&self, spec: &AppSpec, object: &Object) -> GuestSettings {
        let keys = &spec.keys.host_keys;
        GuestSettings {
            options: keys.options.clone(),
            listeners: keys.listen.clone(),
            ..GuestSettings::of_file(ECHO, object.path().display().to_string())
        }
    }

    fn other_files(&self, _spec: &AppSpec, _object: &Object) -> Option<Box<dyn OtherFiles>> {
        None
    }
}

#[test]
#[ignore = "executed by another test, to play a zone of the test hosting"]
fn play() {
    if std::env::var_os(NAME).is_none() {
        return;
    }
    sys::process::split_off_init().unwrap();
    let monitor = Channel::from_stdin().unwrap();
    // The hosting is in no table of the types of messages.
    let (request, fds) = monitor.wait::<serde_json::Value>().unwrap();
    let load = &request["Load"];
    let [object, _config, socket] = <[_; 3]>::try_from(fds).unwrap();
    let is_bound = rustix::net::getsockname(&socket).is_ok();
    let object = String::from_utf8(sys::shm::read_sealed(object, 64).unwrap()).unwrap();
    let settings = [&load["guest"]["host"], &load["guest"]["options"], &load["sandbox"]["read"]];
    let version = format!("{object} {settings:?} {is_bound}").replace('"', "");
    let loaded = serde_json::to_string(&settings).unwrap();
    let expected = r#"["echo",{"word":"hi"},["/usr/share/echo"]]"#;
    let reply = if loaded == expected && object == "echo 1" && is_bound {
        ZoneReply::Loaded { version }
    } else {
        ZoneReply::Unfit { why: version }
    };
    monitor.send(&reply, &[]).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(60)); // it is killed
}
