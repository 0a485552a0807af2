"""Needs of applications that their source shows before their start."""

import json
from pathlib import Path

from rosemary_ryu.beside import main

HEAD = '''"""Says:
import told
"""
import app, os, data, no_such
from . import relative
from queue import Queue
import ryu
try:
    import optional
except ImportError:
    pass
def f():
    import late
'''


def test_modules_beside_an_application_are_found(tmp_path, capsys):
    app = tmp_path / "app.py"
    for name in ("told", "optional", "queue", "relative", "rules", "ryu", "late"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / "__init__.py").write_text("")
    (tmp_path / "data").mkdir()  # no module

    def found(text, *more):
        app.write_text(HEAD + text)
        assert main([*more, "--", str(app)]) == 0
        return json.loads(capsys.readouterr().out)["modules"]

    assert found("") == []
    assert found("from rules import (\n  all)\n") == [[str(app), "rules"]]
    assert found("import found.inner\nimport rules\n") == [[str(app), "found"]]
    assert found("import rules\n", "--python-path", str(tmp_path)) == []
    assert found("print 'Python 2'\nimport rules\n") == [], "its start says so"


def test_variables_that_are_read_are_named_once(tmp_path, capsys):
    app = tmp_path / "app.py"
    app.write_text(
        "import os\nfrom os import environ as e, getenv\nos.environ['A']\nos.environ.get('B', 'x')\ngetenv('C')\ne['A']\n"
        "'D' in os.environ\nos.environ['SET'] = '1'\nos.environ.get('HOME')\nos.environ.copy()\ndel os.environ['GONE']\n"
    )
    assert main(["--python-path", str(tmp_path), "--", str(app), "app", "no_such_module"]) == 0
    read = json.loads(capsys.readouterr().out)["variables"]
    assert read == [[name, it] for name in (str(app), "app") for it in "ABCD"]


def test_web_interfaces_are_found_in_what_an_application_imports(tmp_path, capsys):
    sources = {
        "direct": "from ryu.app.wsgi import ControllerBase",
        "module": "from os_ken.app import wsgi",
        "late": "def f():\n    import ryu.app.wsgi as w",
        "own": "import direct",
        "cycle": "import own, cycle",
        "required": "from ryu.base import app_manager\napp_manager.require_app('direct')",
        "plain": "from ryu.base import app_manager\nfrom ryu.controller import ofp_event\nimport no_such, plain",
        "talks": "# from ryu.app.wsgi import ControllerBase\nfrom ryu.topology import api",
    }
    for name, text in sources.items():
        (tmp_path / f"{name}.py").write_text(text)
    apps = [str(tmp_path / f"{name}.py") for name in sources]
    assert main(["--python-path", str(tmp_path), "--", *apps, "ryu.app.rest_topology", "ryu.app.simple_switch_13", "no_such"]) == 0
    assert json.loads(capsys.readouterr().out)["web"] == [*apps[:6], "ryu.app.rest_topology", "no_such"]


def test_versions_for_switches_are_named_if_the_preferred_one_is_excluded(tmp_path, capsys):
    def versions(*apps):
        files = []
        for number, named in enumerate(apps):
            files.append(str(tmp_path / f"app{number}.py"))
            line = f"    OFP_VERSIONS = [{', '.join(f'ofproto_v{it}.OFP_VERSION' for it in named)}]\n" if named else "    pass\n"
            imports = "".join(f"from ryu.ofproto import ofproto_v{it}\n" for it in named)
            Path(files[-1]).write_text(f"{imports}class A:\n{line}")
        assert main(["--", *files]) == 0
        return json.loads(capsys.readouterr().out)["openflow"]

    assert versions(["1_4"]) == ["1.4"]
    assert versions(["1_4"], []) == ["1.4"], "an app without the attribute supports all"
    assert versions(["1_5", "1_2"]) == ["1.2", "1.5"]
    assert versions(["1_0", "1_4"], ["1_4", "1_3"]) == ["1.4"]
    assert versions(["1_3", "1_4"]) == versions([]) == versions(["1_3"], ["1_4"]) == []
    assert main(["--", str(tmp_path / "app0.py"), "no_such_module"]) == 0
    assert json.loads(capsys.readouterr().out)["openflow"] == [], "the other app may support more"
