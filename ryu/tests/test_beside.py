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
        return json.loads(capsys.readouterr().out)

    assert found("") == []
    assert found("from rules import (\n  all)\n") == [[str(app), "rules"]]
    assert found("import found.inner\nimport rules\n") == [[str(app), "found"]]
    assert found("import rules\n", "--python-path", str(tmp_path)) == []
    assert found("print 'Python 2'\nimport rules\n") == [], "its start says so"
