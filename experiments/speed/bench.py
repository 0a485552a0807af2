"""Controllers that are measured in turn: each starts at its first use, and the same load goes to all in rounds."""

import tempfile

from measure import BUILT, Null, Refused, Rosemary, app, cores, ofbench, say, spread, spread_of

LEARNING = "learning-switch"
SWITCHES = [1, 16, 64]
MILLION = 1e6


class Bench:
    """The controllers under measurement, by name; each starts at its first use."""

    def __init__(self):
        self.core, self.generator = cores()
        self.running = {}
        self.directory = tempfile.TemporaryDirectory(prefix="rosemary-bench-")

    def get(self, name, start):
        if name not in self.running:
            self.running[name] = start()
        return self.running[name]

    def null(self):
        return self.get("null", lambda: Null(self.core))

    def rosemary(self, host, built=BUILT, tls=None):
        name = f"{host} {built} {tls}"
        args = ["--tls-dir", tls] if tls else []
        return self.get(
            name, lambda: Rosemary(host, self.core, app(LEARNING, host=host), built, args)
        )

    def configured(self, name, config, core=None, args=()):
        return self.get(name, lambda: Rosemary(name, core or self.core, config, args=args))

    def stop(self, name=None):
        for key in [name] if name else list(self.running):
            self.running.pop(key).stop()

    def run(self, mode, controller, *words, vs=None):
        say(f"  {mode} {controller.name} " + " ".join(map(str, words)))
        return ofbench(mode, controller, self.generator, *words, vs=vs)


    def speaks(self, controller, of):
        """Whether switches of this version of OpenFlow can connect to the controller."""
        try:
            self.run("connect", controller, "--of", of, "--seconds", 0.1, "--repeat", 1)
        except Refused:
            return False
        return True


class Rounds:
    """Puts the same load on several controllers in turn, in rounds, because a machine's speed changes by the minute."""

    def __init__(self, bench, controllers, words, repeat):
        self.bench, self.controllers, self.words = bench, controllers, words
        self.results = {each.name: [] for each in controllers}
        for _ in range(repeat):
            self.run()

    def run(self):
        """Adds a round."""
        for each in self.controllers:
            self.results[each.name].append(self.bench.run("throughput", each, *self.words, "--repeat", 1))

    def speaks(self, name):
        """Whether the controller is one of those under load."""
        return name in self.results

    def rates(self, name):
        return [result["answered_per_second"]["median"] for result in self.results[name]]

    def rate(self, name):
        return spread(spread_of(self.rates(name)), MILLION)

    def ratio(self, name, other, than=None):
        """The ratio of two controllers, computed within each round; the other under the load of `than`."""
        return spread_of([a / b for a, b in zip(self.rates(name), (than or self).rates(other))])

    def cpu(self, name):
        """CPU seconds per million answers."""
        return spread_of([result["cpu_seconds_per_million"] for result in self.results[name]])["median"]

    def evenness(self, name):
        """The least and the most answers of one switch and their ratio, from the round with the median ratio."""
        ends = [(result["per_switch"]["least"], result["per_switch"]["most"]) for result in self.results[name]]
        ratios = sorted((least / most if most else 0, least, most) for least, most in ends)
        ratio, least, most = ratios[len(ratios) // 2]
        return [least, most, ratio]
