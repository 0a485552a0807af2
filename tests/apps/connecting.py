"""An app in Python that connects to hosts through the broker, and logs the answers."""

import select
import threading

from rosemary import Action, App, BrokerRefused, Match, FlowMod, Unavailable

ASK_EVERY = 0.1


class Connecting(App):
    def __init__(self):
        self.connection, self.asked, self.last, self.switch = None, {}, {}, None

    def say(self, network, about, text):
        """Logs what is new."""
        if self.last.get(about) != text:
            self.last[about] = text
            network.info(f"{about}: {text}")

    def ask(self, network, host, port):
        self.asked[network.connect(host, port)] = f"{host}:{port}"

    def on_service_up(self, event, network):
        self.ask(network, "127.0.0.1", 7007)
        self.ask(network, "localhost", 7007)
        network.wake_at(network.now())

    def on_wake(self, network):
        self.ask(network, "127.0.0.1", 7008)  # nobody listens there
        network.wake_at(network.now() + ASK_EVERY)

    def on_batch(self, events, network):
        handled = super().on_batch(events, network)
        network.wake_at(network.now() + ASK_EVERY)
        return handled

    def on_broker(self, event, network):
        about = self.asked.pop(event.request)
        try:
            event.result()
        except (BrokerRefused, ConnectionError, Unavailable) as error:
            self.say(network, about, f"{type(error).__name__}: {error}")
            assert network.take(event.request) is None
            return
        self.connection = network.take(event.request)
        assert network.take(event.request) is None, "it was taken"
        self.connection.sendall(b"hello\n")
        network.watch(self.connection.fileno(), select.POLLIN)

    def on_ready(self, event, network):
        heard = self.connection.recv(100)
        network.info(f"heard: {heard.decode().strip()}")
        network.watch(event.fd, 0)
        self.connection.close()

    def on_switch_up(self, event, network):
        flow = FlowMod.add(Match(eth_type=0x88B5), priority=1, apply=[Action.output(1)])

        def other():
            for name, call in (
                ("flow-mod", lambda: network.flow_mod(event.switch, flow)),
                ("request", lambda: network.connect("127.0.0.1", 7007)),
            ):
                try:
                    call()
                    network.info(f"another thread: {name} was sent")
                except RuntimeError as error:
                    network.info(f"another thread: {name}: {error}")

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
