"""A rejected configuration of Faucet is a problem of the app until one is accepted."""

import sys
import types
from types import SimpleNamespace

from bench import Bench

from rosemary_ryu import faucet_state

APP = """
from faucet.valves_manager import ValvesManager
from ryu.base import app_manager
from ryu.lib import hub

class Reader(app_manager.RyuApp):
    def start(self):
        super().start()
        manager = ValvesManager()
        manager.parse_configs('bad.yaml')
        return hub.spawn(self.again, manager)

    def again(self, manager):
        hub.sleep(0.05)
        manager.parse_configs('bad.yaml')
        manager.parse_configs('good.yaml')
"""


class ValvesManager:
    """The part of Faucet's class that reads a configuration."""

    def __init__(self):
        self.meta_dp_state = SimpleNamespace(config_hash_info={})

    def parse_configs(self, new_config_file):
        self.meta_dp_state.config_hash_info = {"error": "unknown\n key"}
        return ["dp"] if new_config_file == "good.yaml" else None


def test_rejected_configuration_is_a_problem_until_one_is_accepted(tmp_path, monkeypatch):
    module = types.ModuleType("faucet.valves_manager")
    module.ValvesManager = ValvesManager
    monkeypatch.setitem(sys.modules, "faucet", types.ModuleType("faucet"))
    monkeypatch.setitem(sys.modules, "faucet.valves_manager", module)
    (tmp_path / "reader.py").write_text(APP)
    monkeypatch.syspath_prepend(str(tmp_path))
    bench, stated = Bench("reader"), []
    bench.zone.set_problem = stated.append

    def scenario(bench):
        yield from bench.until(lambda: stated[-1:] == [None], "a configuration is accepted")

    bench.run(scenario)
    assert (
        len(stated) == 2 and stated[0].startswith("Faucet rejected bad.yaml") and "unknown key; correct the file" in stated[0]
    )


def test_real_class_is_known(monkeypatch):
    monkeypatch.syspath_prepend("target/faucet")
    import importlib

    from rosemary_ryu import finder

    finder.install()
    manager = importlib.import_module("faucet.valves_manager").ValvesManager
    before = manager.parse_configs
    faucet_state.watch(print)
    assert manager.parse_configs is not before and "config_hash_info" in before.__code__.co_names


def test_apps_without_faucet_are_left_alone(monkeypatch):
    monkeypatch.delitem(sys.modules, "faucet.valves_manager", raising=False)
    faucet_state.watch(print)
