"""Writes one value after the other into the storage, and logs how many were acknowledged and how long the slowest took.

At its start it reads all values back. Values are under their numbers, in eight bytes.
"""

from rosemary import App, AskError, StorageRefused, Unavailable

LONGEST_KEY, LONGEST_VALUE = 512, 32 * 1024

# Requests with keys and values at the limits, and whether the storage must accept them.
EDGES = (
    (b"", b"x", False),
    (b"k" * (LONGEST_KEY + 1), b"x", False),
    (b"v", b"x" * (LONGEST_VALUE + 1), False),
    (b"\0" * LONGEST_KEY, b"\xff" * LONGEST_VALUE, True),
    (b"k" * LONGEST_KEY, b"", True),
)

LOGGED = 10


def value_of(number):
    return (number * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8, "big")


class Steady(App):
    def __init__(self):
        self.count, self.is_read, self.edges = 0, False, list(EDGES)
        self.request, self.asked, self.slowest = None, 0.0, 0.0

    def on_service_up(self, event, network):
        self.count, self.is_read, self.edges = 0, False, list(EDGES)
        self.advance(network)

    def advance(self, network):
        storage, key = network.storage(), self.count.to_bytes(8, "big")
        try:
            if not self.is_read:
                self.request = storage.get(key)
            elif self.edges:
                self.request = storage.put(*self.edges[0][:2])
            else:
                self.request = storage.put(key, value_of(self.count))
        except AskError as error:
            network.error(f"WRONG not asked: {error}")
        self.asked = network.now()

    def on_storage(self, event, network):
        if event.request != self.request:
            return
        try:
            answer = event.result().kind
            value = event.result().value
        except StorageRefused as error:
            answer, value = f"refused: {error}", None
        except Unavailable:
            return  # the next instance of the service begins again
        if not self.is_read:
            if answer == "value" and value == value_of(self.count):
                self.count += 1
            else:
                self.is_read = True
                network.info(f"READ {self.count} {answer}")
        elif self.edges:
            key, value, is_accepted = self.edges.pop(0)
            if (answer == "done") != is_accepted:
                network.error(f"WRONG {len(key)} {len(value)}: {answer}")
        else:
            if answer != "done":
                network.error(f"WRONG {self.count}: {answer}")
            self.count += 1
            self.slowest = max(self.slowest, network.now() - self.asked)
            if self.count % LOGGED == 0:
                network.info(f"KEPT {self.count} {round(1000 * self.slowest)}")
        self.advance(network)
