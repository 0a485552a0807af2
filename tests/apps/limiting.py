"""An app in Python that reads the counters of other apps, limits one, and later ends the limit."""

from rosemary import App, AppsRefused, Measure

LIMITED = "learning-switch"


class Limiting(App):
    def __init__(self):
        self.names, self.asked, self.release_at, self.is_limited = {}, {}, None, False

    def on_service_up(self, event, network):
        network.app_counters()

    def on_apps(self, event, network):
        about = self.asked.get(event.request, "counters")
        try:
            answer = event.result()
        except AppsRefused as error:
            network.info(f"{about}: AppsRefused: {error}")
            return
        if answer.kind == "apps":
            self.names = {it.number: it.name for it in answer.apps}
            limits = [f"{it.name} is {it.limit}" for it in answer.apps if it.limit is not None]
            network.info(f"apps: {' '.join(sorted(self.names.values()))}, limits: {', '.join(limits) or 'none'}")
        elif answer.kind == "senders":
            senders = [f"{self.names.get(it.app)} at {it.dpid}" for it in answer.senders if it.flow_mods]
            network.info(f"senders: {' '.join(senders)}")
            if not answer.more and not self.is_limited:
                self.is_limited = True
                self.limit(network)
        else:
            network.info(f"{about}: {answer.kind}")
            if about == "throttle":
                network.app_counters()
                self.release_at = network.now() + 6
                network.wake_at(self.release_at)

    def limit(self, network):
        self.asked[network.limit_app("hosts", Measure.SUSPEND, 60, "not granted")] = "suspend hosts"
        self.asked[network.limit_app(LIMITED, Measure.throttle(20), 60, "a test")] = "throttle"

    def on_batch(self, events, network):
        handled = super().on_batch(events, network)
        if self.release_at is not None:
            network.wake_at(self.release_at)
        return handled

    def on_wake(self, network):
        if self.release_at is None or network.now() < self.release_at:
            return
        self.release_at = None
        self.asked[network.release_app(LIMITED)] = "release"
        network.app_counters()
