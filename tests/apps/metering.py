"""An app in Python that wants a flow through a meter, and has a second meter for a moment."""

from rosemary import Action, App, At, FlowMod, Match, MeterBand, Wanted


class Metering(App):
    def __init__(self):
        self.wanted = Wanted()
        self.follow(self.wanted)
        bands = [MeterBand.drop(4000, burst_size=64)]
        self.wanted.meter(At.ALL, 3, bands, ["kbps", "burst", "stats"])
        flow = FlowMod.add(Match(eth_type=0x88B5), priority=7, apply=[Action.output(1)], meter=3)
        self.wanted.flow(At.ALL, flow)

    def on_switch_up(self, event, network):
        network.meter_mod(event.switch, "add", 5, [MeterBand.drop(77)], ["pktps"])
        try:
            network.meter_mod(event.switch, "add", 1 << 31)
        except ValueError as error:
            network.info(f"too high: {error}")
