"""Runs each test in a process of its own, as the framework has one state per process, without the native module."""

import os
import pickle
import sys
import traceback
import types
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import fake

if "rosemary" not in sys.modules:
    native = types.ModuleType("rosemary")
    native.Full = fake.Full
    sys.modules["rosemary"] = native


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Runs the test in a child, and fails with the child's traceback."""
    ours, childs = os.pipe()
    child = os.fork()
    if child == 0:
        failure = ""
        try:
            arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
            pyfuncitem.obj(**arguments)
        except BaseException:
            failure = traceback.format_exc()
        finally:
            os.write(childs, pickle.dumps(failure[-30000:]))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    os.close(childs)
    with os.fdopen(ours, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    failure = pickle.loads(answer) if answer else "the process of the test ended"
    if failure:
        pytest.fail(failure, pytrace=False)
    return True
