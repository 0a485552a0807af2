"""An app in Python that sends change sets to each switch: the first is applied, the kernel refuses the second, and the third cannot be sent."""

from rosemary import Action, App, Bucket, FlowMod, GroupMod, Match, MeterMod


def flow(eth_type, table_id=0):
    return FlowMod.add(Match(eth_type=eth_type), priority=5, table_id=table_id, apply=[Action.output(1)])


class Committing(App):
    def on_switch_up(self, event, network):
        version = event.version
        self.sets = {network.commit(event.switch, [flow(0x88B5), flow(0x88B6)]): "two flows"}
        to_normal = FlowMod.add(Match(eth_type=0x88B7), priority=5, apply=[Action.output(0xFFFFFFFA)])
        self.sets[network.commit(event.switch, [flow(0x88B8), to_normal])] = "to NORMAL"
        if version > 1:
            group = GroupMod("add", 1, [Bucket([Action.output(1)])])
            through = FlowMod.add(Match(eth_type=0x88B9), priority=5, apply=[Action.group(1)])
            self.sets[network.commit(event.switch, [group, through])] = "a group"
        for what, changes in (("a meter", [MeterMod("add", 0)]), ("nothing", []), ("a word", ["word"])):
            try:
                self.sets[network.commit(event.switch, changes)] = what
            except (TypeError, ValueError) as error:
                network.info(f"version {version}, {what}: {type(error).__name__}: {error}")

    def on_committed(self, event, network):
        what = self.sets[event.commit]
        network.info(f"{what}: {event.outcome} {event.is_applied} {event.index} {event.remedy}")
        super().on_committed(event, network)
