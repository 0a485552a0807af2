"""Modules that lie beside an application."""

import json

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
