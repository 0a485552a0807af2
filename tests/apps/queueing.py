"""An app in Python that wants a QoS with a queue for the port p2, and a mirror, in the database `edge`, and logs what it reads."""

from rosemary import App, OvsdbRefused, Ref, WantedRow

ROWS = [
    WantedRow("QoS", "shape", {"type": "linux-htb", "queues": {4: Ref.wanted("slow")}}, under=("Port", "p2", "qos")),
    WantedRow("Queue", "slow", {"other_config": {"max-rate": "400000"}}),
    WantedRow("Mirror", "watch", {"name": "watch", "select_dst_port": Ref.port("p2")}, under=("Bridge", "s1", "mirrors")),
]


class Queueing(App):
    def on_service_up(self, event, network):
        network.databases()

    def on_ovsdb(self, event, network):
        try:
            answer = event.result()
        except OvsdbRefused as error:
            network.info(f"refused as {error.reason}: {error}")
            return
        if answer.kind == "databases":
            self.owner = answer.owner
            network.info(f"owner {answer.owner}, databases {[it.name for it in answer.databases]}")
            network.database_rows("core", "Port")
            network.watch_database("edge")
            network.want_rows("edge", ROWS)
        elif answer.kind == "wanted":
            for key, why in answer.refused:
                network.info(f"refused {key}: {why}")
            network.info(f"wanted: done {answer.done}")
            if not answer.done:
                network.want_rows("edge", ROWS)  # the database was not connected yet
                return
            network.database_rows("edge", "Queue")
            network.database_rows("edge", "Elsewhere")
        elif answer.kind == "rows":
            own = [it for it in answer.rows if it.entry("external_ids", "rosemary-owner") == self.owner]
            network.info(f"own queues: {[it.columns['other_config'] for it in own]}")
        elif answer.kind == "changed":
            network.info(f"changed: {' '.join(answer.tables)}")
