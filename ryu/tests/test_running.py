"""How an application is loaded, which switches and ports it sees, and what its log says when something is wrong."""

import sys
import textwrap

import pytest
from bench import Bench, Switch, app
from fake import event
from recording import named, recorder

from rosemary_ryu import wire

def test_ports_follow_the_switch(tmp_path):
    check_ports(tmp_path, wire.V1_3)


def test_ports_of_1_0_follow_the_switch(tmp_path):
    check_ports(tmp_path, wire.V1_0)


def check_ports(tmp_path, version):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        assert sorted(dp.ports)[:3] == [1, 2, 3]
        bench.zone.incoming.append(switch.port_event(1, 0))  # known
        bench.zone.incoming.append(switch.port_event(2, 2, state=1))
        bench.zone.incoming.append(switch.port_event(9, 0))
        bench.zone.incoming.append(switch.port_event(3, 1))
        yield from bench.until(lambda: 3 not in dp.ports, "port 3 is deleted")
        changes = [(it.reason, it.desc.port_no) for it in named(recorded.seen, "OFPPortStatus")]
        assert changes == [(2, 2), (0, 9), (1, 3)]
        assert dp.ports[2].state == 1
        assert dp.ports[2].curr == 0xC0
        assert 9 in dp.ports

    recorder(tmp_path, version).run(scenario)


def test_switch_that_returns_is_a_new_datapath(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        bench.zone.incoming += [switch.down()]
        yield from bench.turns(3)
        assert recorded.seen == ["main", "dead"]
        assert not recorded.dps[0].send_barrier()
        bench.zone.incoming += [event("SnapshotBegin"), switch.up(), event("SnapshotEnd")]
        yield from bench.turns(6)
        bench.zone.incoming += [event("SnapshotBegin"), switch.up(), event("SnapshotEnd")]  # a new kernel
        yield from bench.turns(6)
        assert recorded.seen == ["main", "dead"] * 2 + ["main"]
        bench.zone.incoming.append(event("FlowsMissing", dpid=1, epoch=1, version=4))
        yield from bench.turns(6)
        assert recorded.seen == ["main", "dead"] * 3 + ["main"]
        assert len({id(it) for it in recorded.dps}) == 4

    recorder(tmp_path).run(scenario)


def test_closed_switch_is_presented_again(tmp_path):
    def scenario(bench):
        from rosemary_ryu import switchboard

        switchboard.SECONDS_UNTIL_RECONNECTED = 0.05
        yield from bench.connect()
        recorded = app("Recorder")
        recorded.dps[0].close()
        yield from bench.until(lambda: recorded.seen.count("main") == 2, "the switch comes back")
        assert recorded.seen == ["main", "dead", "main"]

    recorder(tmp_path).run(scenario)


def test_switch_of_another_version_is_not_presented(tmp_path, caplog):
    def scenario(bench):
        yield from bench.connect()
        assert app("Recorder").dps == []
        assert "protocols=OpenFlow13" in caplog.text

    bench = recorder(tmp_path)
    bench.switches[1] = Switch(1, wire.V1_0, ports=3)
    bench.run(scenario)


def test_failing_handler_is_logged_and_the_next_event_is_handled(tmp_path, caplog):
    source = """
    from ryu.base import app_manager
    from ryu.controller import ofp_event
    from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls

    class Failing(app_manager.RyuApp):
        count = 0
        @set_ev_cls(ofp_event.EventOFPStateChange, MAIN_DISPATCHER)
        def state(self, ev):
            self.count += 1
            raise SystemExit(1)
    """
    (tmp_path / "failing.py").write_text(textwrap.dedent(source))
    sys.path.insert(0, str(tmp_path))

    def scenario(bench):
        yield from bench.connect()
        assert app("Failing").count == 2
        assert "handler state failed" in caplog.text

    Bench("failing", dpids=(1, 2)).run(scenario)


ANNOUNCED = """
from ryu.base import app_manager
from ryu.controller import dpset, ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls
from ryu.ofproto import ofproto_v1_3

class Announced(app_manager.RyuApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]
    _CONTEXTS = {"dpset": dpset.DPSet}
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = []

    @set_ev_cls(dpset.EventDP)
    def switch(self, ev):
        self.seen.append("switch")

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def port(self, ev):
        self.seen.append(ev.msg.desc.port_no)
"""


def test_switch_is_announced_before_changes_of_its_ports(tmp_path, monkeypatch):
    (tmp_path / "announced.py").write_text(ANNOUNCED)
    monkeypatch.syspath_prepend(tmp_path)

    def scenario(bench):
        switch = bench.switches[1]
        early = switch.port_event(9, 0)  # while the description of the ports is on its way
        bench.zone.incoming += [event("SnapshotBegin"), switch.up(), early, event("SnapshotEnd")]
        yield from bench.until(lambda: 9 in app("Announced").seen, "port 9 is announced")
        assert app("Announced").seen == ["switch", 9]

    Bench("announced").run(scenario)


def test_log_can_be_imported_and_set_up(tmp_path):
    bench = recorder(tmp_path)
    lines = ["from ryu import log", "import ryu.log", "log.early_init_log(10)", "log.init_log()", "log.CONF.verbose"]
    with (tmp_path / "recorder.py").open("a") as file:
        file.write("\n".join(lines))
    bench.run(lambda bench: bench.connect())


def logged(bench, caplog, *events):
    """Returns what the application's log has after these events."""

    def scenario(bench):
        bench.zone.incoming.extend(events)
        yield from bench.turns(5)

    bench.run(scenario)
    return [it.getMessage() for it in caplog.records if it.levelname in ("WARNING", "ERROR")]


def test_alerts_have_units(tmp_path, caplog):
    none = (1 << 64) - 1
    alerts = [
        (
            "cpu",
            932,
            800,
            1000,
            "this app uses 0.932 processors, more than 0.8 processors; the limit is 1 processors (limits.cpu)",
        ),
        ("memory", 200 << 20, 150 << 20, none, "this app uses 200 MiB, more than 150 MiB; the limit is none (limits.memory)"),
        (
            *("log-bytes-per-second", 5000, 3277, 4096),
            "this app uses 4.883 KiB per second, more than 3.2 KiB per second; the limit is 4 KiB per second (limits.log-bytes-per-second)",
        ),
        (
            *("flow-mods-per-second", 9, 8, 10),
            "this app uses 9 flow-mods per second, more than 8 flow-mods per second; the limit is 10 flow-mods per second "
            "(limits.flow-mods-per-second)",
        ),
        ("queue-bytes", 0, 800 << 10, 1 << 20, "this app has reached a limit: 1 MiB (limits.queue-bytes)"),
    ]
    events = [event("Alert", limit=limit, used=used, soft=soft, hard=hard) for limit, used, soft, hard, _ in alerts]
    assert logged(recorder(tmp_path), caplog, *events) == [text for *_, text in alerts]


def test_app_of_another_version_learns_what_to_do(tmp_path, caplog):
    (line,) = logged(recorder(tmp_path, wire.V1_0), caplog, Switch(1, wire.V1_3, 1).up())
    assert "supports only 1.0" in line and "--openflow 1.0" in line and "protocols=OpenFlow10" in line


def test_app_of_a_version_that_nobody_speaks_learns_it(tmp_path):
    bench = recorder(tmp_path)
    source = tmp_path / "recorder.py"
    source.write_text(source.read_text().replace("ofproto_v1_3.OFP_VERSION", "2"))
    with pytest.raises(
        ValueError, match="Recorder supports no version .* runs apps of OpenFlow 1.0, 1.2, 1.3, 1.4, 1.5: name one"
    ):
        bench.run(lambda bench: bench.turns(1))


def test_file_without_an_application_is_an_error(tmp_path):
    bench = recorder(tmp_path)
    (tmp_path / "recorder.py").write_text("from ryu.base import app_manager\n")
    with pytest.raises(TypeError, match="recorder defines no application"):
        bench.run(lambda bench: bench.turns(1))


def test_wrong_option_is_one_short_error():
    from rosemary_ryu import finder

    finder.install()
    from os_ken.cmd import manager

    with pytest.raises(ValueError, match="^unrecognized arguments: --no-such-option=5; correct the app's options$"):
        manager.read_options(["--no-such-option=5"])
    with pytest.raises(ValueError, match="wsapi.port.*Invalid Integer.*; correct the app's options$"):
        manager.read_options(["--wsapi-port=none"])
