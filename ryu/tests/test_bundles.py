"""Applications that talk to each other: in one process, and in two."""

import logging
import sys

import pytest
from bench import Bench, app

EVENTS = """
from ryu.controller import event

class EventHello(event.EventBase):
    pass

class EventAskRequest(event.EventRequestBase):
    def __init__(self):
        super().__init__()
        self.dst = 'producer'

class EventAskReply(event.EventReplyBase):
    pass
"""

PRODUCER = """
from ryu.base import app_manager
from ryu.controller.handler import set_ev_cls
import shared_events

class Producer(app_manager.RyuApp):
    _EVENTS = [shared_events.EventHello]
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.name = 'producer'

    @set_ev_cls(shared_events.EventAskRequest)
    def asked(self, request):
        self.reply_to_request(request, shared_events.EventAskReply(request.src))
"""

CONSUMER = """
from ryu.base import app_manager
from ryu.controller.handler import set_ev_cls
from ryu.lib import hub
import shared_events

class Consumer(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.name, self.answers = 'consumer', []
        app_manager.lookup_service_brick('early')

    def start(self):
        super().start()
        return hub.spawn(self.ask)

    def ask(self):
        hub.sleep(0.01)
        for _ in range(2):
            app_manager.lookup_service_brick('producer')
            self.send_event('elsewhere', shared_events.EventHello())
        try:
            self.answers.append(type(self.send_request(shared_events.EventAskRequest())).__name__)
        except LookupError as error:
            self.answers.append(str(error))

    @set_ev_cls(shared_events.EventHello)
    def hello(self, ev):
        pass
"""

BOTH = """
from ryu.base import app_manager
app_manager.require_app('producer')
app_manager.require_app('consumer')

class Both(app_manager.RyuApp):
    pass
"""


@pytest.fixture
def modules(tmp_path):
    for name, text in {"shared_events": EVENTS, "producer": PRODUCER, "consumer": CONSUMER, "both": BOTH}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return str(tmp_path)


def answers(modules, name, caplog):
    sys.path.insert(0, modules)
    caplog.set_level(logging.INFO)
    found = []

    def scenario(bench):
        yield from bench.until(lambda: app("consumer").answers, "the request has an answer")
        found.extend(app("consumer").answers)

    Bench(name).run(scenario)
    return found, [it.getMessage() for it in caplog.records if "process" in it.getMessage()]


def test_request_to_another_process_fails(modules, caplog):
    found, logged = answers(modules, "consumer", caplog)
    assert "require_app('MODULE')" in found[0] and "producer" in found[0]
    starts = [it.partition(":")[0] for it in logged]
    assert starts == [
        "consumer handles EventHello, which no app of this process has in its _EVENTS",
        "producer was looked up, and is not in this process",
        "elsewhere was sent EventHello by consumer, and is not in this process",
    ]


def test_one_file_puts_apps_together(modules, caplog):
    found, logged = answers(modules, "both", caplog)
    assert found == ["EventAskReply"]
    assert [it.partition(" ")[0] for it in logged] == ["elsewhere"]


def test_events_of_an_apps_own_package_need_no_source(tmp_path, caplog):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "events.py").write_text(EVENTS)
    (tmp_path / "own" / "consumer.py").write_text(
        CONSUMER.replace("import shared_events", "from own import events as shared_events")
    )
    assert not any("handles" in it for it in answers(str(tmp_path), "own.consumer", caplog)[1])
