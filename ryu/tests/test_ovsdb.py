"""Ryu's OVSDB library and `rest_qos` beside a fake of the service of databases."""

import fake
import fake_ovsdb
import pytest
from bench import Bench

DPID = "0000000000000001"
QUEUES = {"type": "linux-htb", "max_rate": "1000000", "queues": [{"max_rate": "500000"}, {"min_rate": "800000"}]}


def run_app(source, tmp_path, monkeypatch, condition, **fields):
    """Runs an app whose `work(bridge, vsctl)` notes its results in `seen`, and returns these and the service."""
    body = (
        "import logging\n"
        "from ryu.base import app_manager\n"
        "from ryu.lib import hub\n"
        "from ryu.lib.ovs import bridge, vsctl\n"
        "seen = []\n"
        f"{source}\n"
        "class Worker(app_manager.RyuApp):\n"
        "    def start(self):\n"
        "        super().start()\n"
        "        return hub.spawn(self.work)\n"
        "    def work(self):\n"
        f"        it = bridge.OVSBridge(self.CONF, 1, '{fake_ovsdb.ADDRESS}')\n"
        "        try:\n"
        "            it.init()\n"
        "            work(it)\n"
        "        except (Exception, hub.Timeout) as error:\n"
        "            seen.append(f'{type(error).__name__}: {error}')\n"
        "        seen.append('end')\n"
    )
    (tmp_path / "ovs_worker.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    bench = Bench("ovs_worker")
    service = fake_ovsdb.Service(bench.zone, **fields)
    results = []

    def scenario(bench):
        yield from bench.connect()
        import ovs_worker

        yield from bench.until(lambda: "end" in ovs_worker.seen, f"the end of the work: {ovs_worker.seen}")
        results.extend(ovs_worker.seen[:-1])
        if condition is not None:
            yield from condition(bench, service)

    bench.run(scenario)
    return results, service


def test_rest_qos_sets_and_deletes_queues():
    bench = Bench("ryu.app.rest_qos", "ryu.app.rest_conf_switch")
    port = bench.listen()
    service = fake_ovsdb.Service(bench.zone)

    def scenario(bench):
        yield from bench.connect()
        path = f"/v1.0/conf/switches/{DPID}/ovsdb_addr"
        assert (yield from bench.http(port, "PUT", path, f'"{fake_ovsdb.ADDRESS}"'))[0] == 201
        yield from bench.turns(20)
        body = {"port_name": "s1-eth1", **QUEUES}
        status, answer = yield from bench.http(port, "POST", f"/qos/queue/{DPID}", body)
        assert answer[0]["command_result"]["result"] == "success", answer
        (qos,) = service.own("QoS")
        assert (qos["type"], qos["other_config"]) == (["linux-htb"], {"max-rate": "1000000"})
        assert sorted(qos["queues"]) == [0, 1]
        configs = [service.tables["Queue"][qos["queues"][it]]["other_config"] for it in (0, 1)]
        assert configs == [{"max-rate": "500000"}, {"min-rate": "800000"}]
        assert len(service.named("Port", "s1-eth1")["qos"]) == 1
        status, answer = yield from bench.http(port, "GET", f"/qos/queue/{DPID}")
        assert "s1-eth1" in str(answer), answer
        # The service has restarted: the rows are stated again.
        asked = len(service.asked)
        bench.zone.incoming.append(fake.event("ServiceUp", service="ovsdb"))
        yield from bench.until(lambda: len(service.asked) > asked, "the rows are stated again")
        assert service.asked[-1][0] == "want" and len(service.asked[-1][1]) == 3
        status, answer = yield from bench.http(port, "DELETE", f"/qos/queue/{DPID}")
        assert answer[0]["command_result"] == "success", answer
        assert service.own("QoS") == service.own("Queue") == [] == service.named("Port", "s1-eth1")["qos"]

    bench.run(scenario)


def test_reads(tmp_path, monkeypatch):
    source = (
        "def work(it):\n"
        "    seen.append((it.br_name, it.get_port_name_list(), it.get_controller(), it.get_datapath_id()))\n"
        "    seen.append((it.get_ofport('s1-eth2'), [port.port_name for port in it.get_external_ports()]))\n"
        "    seen.append([str(port) for port in it.get_tunnel_ports()])\n"
        "    seen.append(it.db_get_map('Interface', 'gre0', 'options'))\n"
        "    seen.append(it.get_db_attribute('Interface', 'gre0', 'options', 'local_ip'))\n"
        "    seen.append([row.name for row in it.find_db_attributes('Interface', 'type=gre')])\n"
        "    seen.append([row.name for row in it.find_db_attributes('Interface', 'options:remote_ip=192.0.2.9')])\n"
        "    seen.append(it.list_db_attributes('port', 's1-eth1')[0].interfaces[0].ofport)\n"
        "    seen.append(it.get_quantum_ports('s1-eth1')['ofport'])\n"
        "    commands = [vsctl.VSCtlCommand(*it) for it in (('list-br',), ('br-exists', ['s2']), ('iface-to-br', ['gre0']), ('show',))]\n"
        "    it.run_command(commands)\n"
        "    seen.append([command.result for command in commands[:3]])\n"
        "    assert 'Port gre0' in commands[3].result\n"
    )
    seen, service = run_app(source, tmp_path, monkeypatch, None)
    assert seen == [
        ("s1", ["gre0", "s1-eth1", "s1-eth2"], "tcp:127.0.0.1:6653", [DPID]),
        (2, ["s1-eth1", "s1-eth2"]),
        ["port_name=gre0, ofport=3, type=gre, local_ip=192.0.2.1, remote_ip=192.0.2.9"],
        {"remote_ip": "192.0.2.9", "local_ip": "192.0.2.1"},
        "192.0.2.1",
        ["gre0"],
        ["gre0"],
        [1],
        1,
        [["s1"], False, "s1"],
    ]
    assert not any(it[0] == "want" for it in service.asked), "nothing is written"


def test_ports_and_settings_of_own_rows(tmp_path, monkeypatch):
    source = (
        "def work(it):\n"
        "    it.add_vxlan_port('vx0', '192.0.2.7', key=5)\n"
        "    it.set_qos('s1-eth1', queues=[{'max-rate': '7'}])\n"
        "    qos = it.get_db_attribute('Port', 's1-eth1', 'qos')[0]\n"
        "    it.set_db_attribute('QoS', str(qos.uuid), 'other_config', '9', key='max-rate')\n"
        "    seen.append('set')\n"
    )

    def condition(bench, service):
        assert service.named("Interface", "vx0")["type"] == ["vxlan"]
        assert service.named("Interface", "vx0")["options"] == {"remote_ip": "192.0.2.7", "key": "5"}
        assert len(service.named("Bridge", "s1")["ports"]) == 5
        yield from ()

    seen, service = run_app(source, tmp_path, monkeypatch, condition)
    assert seen == ["set"]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("it.set_controller(['tcp:192.0.2.1:6653'])", "set-controller is refused: Rosemary controls this bridge"),
        ("it.del_controller()", "del-controller is refused"),
        ("it.add_bond('b', ['a', 'c'])", "add-bond is refused"),
        ("it.run_command([vsctl.VSCtlCommand('add-br', ['s2'])])", "add-br is refused: bridges belong to the operator"),
        ("it.run_command([vsctl.VSCtlCommand('emer-reset')])", "emer-reset is not supported"),
        ("it.delete_port('s1-eth1')", "the port s1-eth1 is not of this app"),
        ("it.set_db_attribute('Interface', 's1-eth1', 'type', 'gre')", "is not of this app"),
        ("it.set_qos('absent')", 'no row "absent" in table Port'),
        ("it.get_db_attribute('Bridge', 's1', 'absent')", "does not contain a column"),
        ("it.list_db_attributes('absent')", 'unknown table "absent"'),
        ("bridge.OVSBridge(it.CONF, 1, 'tcp:192.0.2.1:6640').init()", "no database at tcp:192.0.2.1:6640; add [[ovsdb]]"),
        ("bridge.OVSBridge(it.CONF, 1, 'elsewhere').init()", "Invalid OVSDB address"),
        ("bridge.OVSBridge(it.CONF, 2, it.ovsdb_addr).init()", "no bridge for datapath_id 0000000000000002"),
    ],
)
def test_refusals(call, why, tmp_path, monkeypatch):
    source = f"def work(it):\n    from os_ken import cfg\n    it.CONF = cfg.CONF\n    {call}\n"
    seen, service = run_app(source, tmp_path, monkeypatch, None)
    assert len(seen) == 1 and why in seen[0], seen
    assert service.own("QoS") == service.own("Port") == []


def test_refused_rows_are_taken_back(tmp_path, monkeypatch):
    source = (
        "def work(it):\n"
        "    it.set_qos('s1-eth1')\n"
        "    try:\n"
        "        it.set_qos('s1-eth2', queues=[{'max-rate': '7'}])\n"
        "    except Exception as error:\n"
        "        seen.append(str(error))\n"
    )
    refuses = lambda row: "no right; add it" if row.table == "Queue" else None  # noqa: E731
    seen, service = run_app(source, tmp_path, monkeypatch, None, refuses=refuses)
    assert len(seen) == 1 and "no right; add it" in seen[0]
    assert len(service.own("QoS")) == 1 and service.named("Port", "s1-eth2")["qos"] == []


def test_rows_of_an_earlier_life_stay(tmp_path, monkeypatch):
    source = "def work(it):\n    it.set_qos('s1-eth2')\n"

    def before(service):
        ids = {"rosemary-owner": fake_ovsdb.OWNER}
        queue = service.add("Queue", other_config={"max-rate": "1"}, external_ids={**ids, "rosemary-key": "queue_0_x"})
        qos = service.add(
            "QoS", type=["linux-htb"], queues={0: queue}, other_config={}, external_ids={**ids, "rosemary-key": "qos_x"}
        )
        service.named("Port", "s1-eth1")["qos"].append(qos)

    made = fake_ovsdb.Service.__post_init__

    def with_rows(service):
        made(service)
        before(service)

    monkeypatch.setattr(fake_ovsdb.Service, "__post_init__", with_rows)
    seen, service = run_app(source, tmp_path, monkeypatch, None)
    assert seen == []
    assert len(service.own("QoS")) == 2 and len(service.own("Queue")) == 1
    (first,) = service.named("Port", "s1-eth1")["qos"]
    assert service.tables["QoS"][first]["queues"][0] in service.tables["Queue"]


def test_service_that_is_not_named_or_silent(tmp_path, monkeypatch):
    seen, _ = run_app("def work(it):\n    pass\n", tmp_path, monkeypatch, None, is_named=False)
    assert 'add services = ["ovsdb"]' in seen[0], seen


def test_silent_service_ends_with_the_timeout(tmp_path, monkeypatch):
    seen, _ = run_app("def work(it):\n    pass\n", tmp_path, monkeypatch, None, is_silent=True)
    assert seen[0].startswith("Timeout"), seen
