"""Web interfaces of applications: without the context `wsgi`, and with `asyncio`."""

import sys
import textwrap

import pytest
from bench import Bench, app

HEAD = """
from ryu.app.wsgi import ControllerBase, WSGIApplication, route
from ryu.base import app_manager
"""


def bench_of(tmp_path, source, head=HEAD):
    (tmp_path / "web.py").write_text(head + textwrap.dedent(source))
    sys.path.insert(0, str(tmp_path))
    return Bench("web")


@pytest.mark.parametrize("parameters", ["self", "self, *args, **kwargs", "self, wsgi"])
def test_app_that_only_imports_controllers_runs_without_a_port(tmp_path, parameters):
    source = f"""
    class Web(app_manager.RyuApp):
        def __init__({parameters}):
            super().__init__()
            self.is_there = True
    """

    def scenario(bench):
        yield from bench.turns(2)
        assert app("Web").is_there

    bench_of(tmp_path, source).run(scenario)


def test_app_with_the_context_still_needs_a_port(tmp_path):
    source = """
    class Web(app_manager.RyuApp):
        _CONTEXTS = {"wsgi": WSGIApplication}
    """
    with pytest.raises(PermissionError, match="--wsapi-port 8080"):
        bench_of(tmp_path, source).run(lambda bench: bench.turns(2))


ASYNCIO = """
import asyncio
from ryu.base import app_manager
from ryu.lib import hub

class Web(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.served, self.ticks, self.later = 0, 0, None

    def start(self):
        super().start()
        hub.spawn(self.tick)
        return hub.spawn(lambda: asyncio.run(self.main(), debug=False))

    def tick(self):
        while True:
            self.ticks += 1
            hub.sleep(0.01)

    async def main(self):
        loop = asyncio.get_running_loop()
        self.later = await loop.run_in_executor(None, lambda: "from a thread")
        await asyncio.sleep(0.05)
        server = await asyncio.start_server(self.serve, "0.0.0.0", PORT)
        async with server:
            await server.serve_forever()

    async def serve(self, reader, writer):
        line = await reader.readline()
        await asyncio.sleep(0.05)
        self.served += 1
        writer.write(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + line.split()[1] + b"x" * 300_000)
        await writer.drain()
        writer.close()
"""


def test_asyncio_serves_a_granted_port_beside_green_threads(tmp_path):
    def scenario(bench):
        yield from bench.until(lambda: app("Web") and app("Web").later, "the executor answers")
        web = app("Web")
        before = web.ticks
        for path in ("/a", "/b"):
            status, body = yield from bench.http(port, "GET", path)
            assert (status, body[:3], len(body)) == (200, f"{path}x", 300_002)
        assert (web.served, web.later) == (2, "from a thread")
        assert web.ticks > before + 5, "other green threads run, too"

    bench = bench_of(tmp_path, "")
    port = bench.listen()
    (tmp_path / "web.py").write_text(ASYNCIO.replace("PORT", str(port)))
    bench.run(scenario)


def test_asyncio_without_a_granted_port_names_the_setting(tmp_path, caplog):
    def scenario(bench):
        yield from bench.until(lambda: "--wsapi-port 8099" in caplog.text, "the refusal is logged")

    bench_of(tmp_path, ASYNCIO.replace("PORT", "8099"), "").run(scenario)
