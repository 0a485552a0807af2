//! Tests of the rules of supervision (`[supervision]`): back-off and hold.

use std::fs;

use control::operator::ProgramState;

use super::instance::Instance;

#[test]
fn app_that_ends_too_often_is_held_until_file_changes() {
    let mut instance = Instance::build_with("[supervision]\nmin-run-seconds = 0.1\nrestarts = 2\n");
    instance.set_behaviour("rosemary-zone", "brief");
    instance.start().until_logged("died too often and was held");
    let held = instance.until("held", || {
        let app = instance.status()?.apps.remove(0);
        (app.state == ProgramState::Held).then_some(app)
    });
    assert_eq!(held.restarts, 2);
    let why = held.last_exit.unwrap();
    assert!(why.contains("it ended 3 times in 3600 s"), "{why}");
    assert_eq!(instance.log().matches("started program=\"zone learning-switch\"").count(), 3);
    instance.set_behaviour("rosemary-zone", "well");
    fs::write(instance.path("examples/liblearning_switch.so"), "a better object").unwrap();
    instance.until_connected(1);
}
