"""The Python SDK of Rosemary: write an OpenFlow application as a class.

    from rosemary import Action, App, FLOOD

    class Hub(App):
        def on_packet_in(self, event, network):
            network.packet_out_for(event, [Action.output(FLOOD)])

`rosemary up --app hub.py` runs it in a confined process of its own.
"""

from ._native import (
    Action,
    Address,
    Alert,
    AppCounters,
    AppsAnswer,
    AppsEvent,
    AppsRefused,
    Arp,
    AskError,
    At,
    BrokerEvent,
    BrokerRefused,
    Bucket,
    Committed,
    Database,
    DatabaseRow,
    DrainEvent,
    DrainRefused,
    Endpoint,
    Error,
    Expect,
    FlowMod,
    FlowRemoved,
    FlowsKept,
    FlowsMissing,
    Full,
    Graph,
    GroupMod,
    Hop,
    Host,
    HostChange,
    Hosts,
    HostsEvent,
    HttpRequest,
    LearnedHost,
    LinkDownRecord,
    LinkRecord,
    Listener,
    Lost,
    Match,
    Measure,
    MeterBand,
    MeterMod,
    Nicira,
    Notice,
    Numbers,
    OvsdbAnswer,
    OvsdbEvent,
    OvsdbRefused,
    Packet,
    PacketIn,
    Path,
    Port,
    PortCounters,
    PortRates,
    PortRecord,
    Ready,
    Ref,
    Refused,
    Reply,
    RequestLost,
    Sender,
    ServiceUp,
    SnapshotBegin,
    SnapshotEnd,
    Stats,
    Storage,
    StorageAnswer,
    StorageEvent,
    StorageRefused,
    Switch,
    SwitchDown,
    SwitchRecord,
    SwitchStats,
    SwitchUp,
    TableNews,
    Topology,
    TopologyEvent,
    Unavailable,
    Wanted,
    WantedRow,
    Zone,
    __version__,
)
from .app import App, Network
from .http import Response

IN_PORT = 0xFFFFFFF8
"""The port through which the packet came in."""
NORMAL = 0xFFFFFFFA
"""The switch's own forwarding."""
FLOOD = 0xFFFFFFFB
"""All ports that take part in flooding, except the one through which the packet came in."""
ALL = 0xFFFFFFFC
"""All ports except the one through which the packet came in."""
CONTROLLER = 0xFFFFFFFD
"""The controller."""
LOCAL = 0xFFFFFFFE
"""The switch's own network stack."""
ANY = 0xFFFFFFFF
"""No port in particular."""

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("app", "http")]
