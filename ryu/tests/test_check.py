"""The inspection of an application before it is started."""

import os
import sys

import pytest
from rosemary_ryu.check import check, main

APP = "\nclass A:\n    pass\n"


def found(source):
    return [(it.line, it.what) for it in check(source + APP, "app.py")]


def why(source):
    (finding,) = check(source + APP, "app.py")
    return finding.why


def test_supported_app_has_no_findings():
    source = "from ryu.base import app_manager\nfrom ryu.ofproto import ofproto_v1_3\n"
    assert found(source + "class A:\n    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]\n") == []


def test_modules_without_a_network_are_found():
    assert found("import subprocess\nfrom ryu.services.protocols.bgp import bgpspeaker\n") == [
        (1, "subprocess"),
        (2, "ryu.services.protocols.bgp"),
    ]
    assert found("import asyncio") == []
    modules = ("http.client", "httplib2", "smtplib", "requests")
    assert found("import " + ", ".join(modules)) == [(1, it) for it in sorted(modules)]


def test_ovsdb_is_found_in_each_form():
    assert found("from ryu.lib.ovs import bridge") == [(1, "ryu.lib.ovs.bridge")]
    assert found("from ryu.lib import ovs") == [(1, "ryu.lib.ovs")]
    assert found("import os_ken.lib.ovs.bridge") == [(1, "os_ken.lib.ovs.bridge")]
    assert "ovsdb.write" in why("from ryu.lib.ovs.bridge import OVSBridge")
    assert "use ryu.lib.ovs.bridge" in why("from ryu.lib.ovs import db_client")


@pytest.mark.parametrize("version", ["ofproto_v1_1.OFP_VERSION", "ofp.OFP_VERSION", "OFP_VERSION", "0x02"])
def test_only_unsupported_versions_are_found(version):
    imports = (
        "from ryu.ofproto import ofproto_v1_3\ntry:\n    from ryu.ofproto import ofproto_v1_1, ofproto_v1_1 as ofp\n"
        "    from ryu.ofproto.ofproto_v1_1 import OFP_VERSION\nexcept ImportError:\n    pass\n"
    )
    assert found(f"{imports}class A:\n    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION, {version}]\n") == []
    (finding,) = check(f"{imports}class A:\n    OFP_VERSIONS = [{version}]\n", "app.py")
    assert (finding.line, finding.what) == (8, "OpenFlow 1.1")
    assert finding.why == "apps may support 1.0, 1.2, 1.3, 1.4, 1.5"


@pytest.mark.parametrize("name", ["1_0", "1_2", "1_3", "1_4", "1_5"])
def test_versions_that_work_are_no_findings(name):
    source = f"from ryu.ofproto import ofproto_v{name} as ofp\nclass A:\n    OFP_VERSIONS = [ofp.OFP_VERSION]\n"
    assert found(source) == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import os; os.system('ls')", "os.system"),
        ("from os import system", "os.system"),
        ("from os import fork as f", "os.fork"),
        ("from os import *; execv('/bin/ls', [])", "os.execv"),
        ("import os as o; o.spawnl(0, 'x')", "os.spawnl"),
        ("import os; run = os.popen", "os.popen"),
        ("from urllib.request import urlopen; urlopen('x')", "urllib.request.urlopen"),
        ("import urllib.request as ur; ur.urlopen('x')", "urllib.request.urlopen"),
        ("import urllib.request; urllib.request.urlopen('x')", "urllib.request.urlopen"),
        ("import socket; socket.socket()", "socket.socket"),
        ("def f():\n import socket\n return socket.socket()", "socket.socket"),
        ("from eventlet import tpool", "eventlet.tpool"),
        ("from ryu.lib import hub; hub.connect(1)", "ryu.lib.hub.connect"),
        ("parser.NXActionLearn(1)", "NXActionLearn"),
        ("parser.NXActionRegMove()", "NXActionRegMove"),
        ("parser.OFPExperimenter()", "OFPExperimenter"),
    ],
)
def test_each_form_of_a_use_is_found_once(source, what):
    assert [name for _, name in found(source)] == [what]


def test_names_that_other_things_have_are_not_found():
    assert found("import socket\ndef f(socket):\n    return socket.socket()\n") == []
    assert found("class os:\n    system = print\nos.system('ls')\n") == []
    assert found("import socket\nsocket.inet_aton('10.0.0.1')\n") == []
    assert found("import sqlite3\nsqlite3.connect(':memory:')\nsqlite3.connect('/tmp/a.db')\n") == []


@pytest.mark.parametrize(
    ("source", "path", "remedy"),
    [
        ("open('/stats.csv', 'w')", "/stats.csv", "only in /tmp"),
        ("open('/var/log/app.log', mode='a')", "/var/log/app.log", "only in /tmp"),
        ("import logging\nlogging.FileHandler('/srv/ryu.log')", "/srv/ryu.log", "only in /tmp"),
        ("from logging import handlers as h\nh.RotatingFileHandler('/srv/ryu.log')", "/srv/ryu.log", "only in /tmp"),
        ("import logging\nlogging.basicConfig(filename='/srv/ryu.log')", "/srv/ryu.log", "only in /tmp"),
        ("import sqlite3\nsqlite3.connect('/var/lib/a.db')", "/var/lib/a.db", "only in /tmp"),
        ("open('/etc/hosts')", "/etc/hosts", '"fs.read:/etc/hosts"'),
        ("open('conf.json').read()", "conf.json", "absolute path"),
        ("from pathlib import Path\nPath('/etc/hosts').read_text()", "/etc/hosts", '"fs.read:/etc/hosts"'),
        ("open('/proc/meminfo')", "/proc/meminfo", "no app can read"),
    ],
)
def test_files_are_found_with_the_key(source, path, remedy):
    (finding,) = check(source + APP, "app.py")
    assert (finding.what, remedy in finding.why) == (path, True), finding


def test_file_beside_the_app_has_its_path():
    source = "import os\nHERE = os.path.dirname(os.path.abspath(__file__))\nopen(os.path.join(HERE, 'rules.json'))\n"
    (finding,) = check(source + APP, "/srv/apps/app.py")
    assert (finding.line, finding.what) == (3, "/srv/apps/rules.json")
    assert '"fs.read:/srv/apps/rules.json"' in finding.why


def test_files_in_tmp_and_computed_names_are_not_found():
    assert found("open('/tmp/x', 'w')\nopen('/tmp/x')\nopen('stats.csv', 'w')\nname = input()\nopen(name, 'w')\n") == []


def test_module_that_is_not_installed_is_found():
    assert "pip install no_such_module" in why("import no_such_module.part")
    assert found("try:\n    import no_such_module\nexcept ImportError:\n    pass\n") == []
    assert found("try:\n    import requests\nexcept ImportError:\n    requests = None\n") == []
    assert found("import yaml, eventlet, collections.abc, rosemary") == []


def test_apps_of_ryu_need_ryu(monkeypatch):
    assert found("from ryu.app import simple_switch_13") == []
    assert found("from ryu.app import wsgi; from ryu.lib import hub; from ryu import cfg, log, version") == []
    monkeypatch.setattr(sys, "path", [it for it in sys.path if "target/ryu" not in it])
    assert "ryu==4.34" in why("from ryu.app import simple_switch_13")
    assert "ryu==4.34" in why("import ryu.app.simple_switch_13")
    assert found("from ryu.app.wsgi import WSGIApplication; from ryu.app import wsgi; from ryu.lib import packet") == []


def test_modules_beside_the_app_are_named_and_checked(tmp_path, capsys):
    app, near = tmp_path / "app.py", tmp_path / "near.py"
    app.write_text("from near import x" + APP)
    near.write_text("import farther\n")
    (tmp_path / "farther.py").write_text("import subprocess\n")
    assert main([str(app)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2, lines
    assert lines[0].startswith(f"{app}:1: near: ") and f"--python-path {tmp_path}" in lines[0]
    assert lines[1].startswith(f"{tmp_path}/farther.py:1: subprocess: ")
    assert main(["--python-path", str(tmp_path), str(app)]) == 1
    assert capsys.readouterr().out.splitlines() == lines[1:]


def test_packages_of_others_are_not_checked(tmp_path, capsys):
    app, library = tmp_path / "app.py", tmp_path / "library"
    app.write_text("import other_parts" + APP)
    (library / "other_parts").mkdir(parents=True)
    (library / "other_parts" / "__init__.py").write_text("import subprocess\n")
    assert main(["--python-path", str(library), str(app)]) == 1
    (library / "other_parts-1.0.dist-info").mkdir()
    assert main(["--python-path", str(library), str(app)]) == 0


def test_file_without_a_class_is_found():
    assert [it.what for it in check("import ryu\n", "app.py")] == ["no class"]


def test_exit_codes_say_what_was_found(tmp_path, capsys):
    good, bad, broken = tmp_path / "good.py", tmp_path / "bad.py", tmp_path / "broken.py"
    good.write_text("import ryu" + APP)
    bad.write_text("import subprocess" + APP)
    broken.write_text("print 'Python 2'\n")
    assert main([str(good)]) == 0
    assert main([str(bad)]) == 1
    assert main([str(broken)]) == 1
    assert main([str(tmp_path / "missing.py")]) == 2
    assert main([]) == 2
    assert main(["--help"]) == 0
    assert "usage: rosemary ryu check" in capsys.readouterr().out


def test_argument_is_not_the_constant_of_the_module():
    constant = "path = '/data/a.txt'\n"
    assert found(constant + "def f(self, path):\n    open(path)\n") == []
    assert found(constant + "def f(self):\n    open(path)\n") != []


# Those of docs/ryu-apps.md, without `rest_qos`, which needs a database for a part.
@pytest.mark.parametrize(
    "name",
    "example_switch_13 ofctl_rest rest_conf_switch rest_firewall rest_router rest_topology simple_monitor_13 simple_switch "
    "simple_switch_12 simple_switch_13 simple_switch_14 simple_switch_15 simple_switch_igmp simple_switch_igmp_13 simple_switch_lacp simple_switch_lacp_13 simple_switch_rest_13 "
    "simple_switch_stp simple_switch_stp_13 simple_switch_websocket_13 ws_topology".split(),
)
def test_apps_of_ryu_have_no_findings(name, capsys):
    assert main([f"ryu.app.{name}"]) == 0, capsys.readouterr().out


def test_module_of_ryu_has_findings(capsys):
    assert main(["ryu.app.rest_qos"]) == 1
    assert "ryu.lib.ovs.bridge" in capsys.readouterr().out
    assert main(["ryu.app.no_such_app"]) == 2


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import os; os.environ['API_KEY']", "os.environ['API_KEY']"),
        ("import os; os.environ.get('API_KEY', 'abc')", "os.environ['API_KEY']"),
        ("from os import environ; environ.setdefault('API_KEY', 'abc')", "os.environ['API_KEY']"),
        ("from os import getenv as g; g('API_KEY')", "os.environ['API_KEY']"),
        ("import os; 'API_KEY' in os.environ", "os.environ['API_KEY']"),
        ("import os; os.environb[b'API_KEY']", "os.environ['API_KEY']"),
        ("import os; print(dict(os.environ))", "os.environ"),
        ("import os; os.getenv(input())", "os.environ"),
    ],
)
def test_variables_are_found_with_their_option(source, what):
    (finding,) = check(source + APP, "app.py")
    assert finding.what == what
    assert "--env API_KEY" in finding.why or what == "os.environ" and "--env NAME" in finding.why


def test_variables_that_are_only_set_are_not_found():
    source = "import os\nos.environ['A'] = '1'\ndel os.environ['A']\nos.environ.update(B='2')\nos.environ['HOME']\n"
    assert found(source) == []


def test_finding_is_printed_once_with_all_its_lines(tmp_path, capsys):
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    (tmp_path / "shared.py").write_text("import socket\n" + "socket.socket()\n" * 3)
    for app in (first, second):
        app.write_text("import shared" + APP)
    assert main(["--python-path", str(tmp_path), str(first), str(second), str(first)]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{tmp_path}/shared.py:2: socket.socket: ")
    assert line.endswith("(also in line 3, 4)")


def test_ports_of_several_web_interfaces_are_named(tmp_path, capsys):
    first, second, plain = (tmp_path / f"{name}.py" for name in ("first", "second", "plain"))
    for app in (first, second):
        app.write_text("from ryu.app.wsgi import ControllerBase" + APP)
    plain.write_text(APP)
    assert main([str(plain), str(first)]) == 0
    assert "PORT" not in capsys.readouterr().out
    assert main([str(plain), str(first), str(second), str(first)]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert f"--wsapi-port PORT: {first} at PORT, {second} at PORT + 1; for one port" in line


# Python accepts the first two of these, and refuses the others.
@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("x = " + "-" * 400 + "1" + APP, 0),
        ("x = " + "-" * 1500 + "1" + APP, 0),
        ("x = " + "-" * 9000 + "1", 1),
        ("x = " + "(" * 9000 + "1", 1),
        ("x = a" + ".a" * 20000, 1),
        ("x = 1\0", 1),
    ],
)
def test_deep_source_is_a_finding(source, status, tmp_path, capsys):
    app = tmp_path / "app.py"
    app.write_text(source)
    assert main([str(app)]) == status
    assert ": not Python 3." in capsys.readouterr().out or status == 0


def test_what_is_no_file_is_not_read(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "endless.py").symlink_to("/dev/zero")
    (tmp_path / "loop.py").symlink_to("loop.py")
    with (tmp_path / "long.py").open("w") as long:
        long.truncate(1 << 40)
    for name in ("pipe", "endless", "loop", "long"):
        assert main([str(tmp_path / f"{name}.py")]) == 2
        assert f"{name}.py: cannot be read: " in capsys.readouterr().err


def test_module_that_cannot_be_read_is_a_finding(tmp_path, capsys):
    (tmp_path / "app.py").write_text("import long\n" + APP)
    with (tmp_path / "long.py").open("w") as long:
        long.truncate(1 << 40)
    assert main(["--python-path", str(tmp_path), str(tmp_path / "app.py")]) == 1
    assert capsys.readouterr().out.startswith(f"{tmp_path}/long.py:1: cannot be read: it is longer than 4 MiB")


def test_long_names_are_not_found(tmp_path):
    assert found("import " + "a" * 300)[0][0] == 1
    assert found("import " + ".".join("a" * 5000))[0][0] == 1


def test_hidden_characters_are_escaped(tmp_path, capsys):
    app = tmp_path / "a\u202e\x1b[2J.py"
    app.write_text("open('/x\\n\\x1b[2J\\u200b\\ufe0f\\ud800')" + APP)
    assert main([str(app)]) == 1
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1 and printed[:-1].isprintable(), printed
    assert r"/x\u000a\u001b[2J\u200b\ufe0f\ud800: " in printed
