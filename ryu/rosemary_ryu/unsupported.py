"""The table of what a zone refuses, by full dotted names, with what to do instead.

An entry covers its name and all names below it; the longest entry that fits counts. Names of os_ken are those of ryu.
"""

from __future__ import annotations

import re

_NO_PROCESS = "a zone starts no processes"
_NO_NETWORK = (
    "a zone opens no connections; put this part into an app of Rosemary's own interface with the capability net.connect:HOST:PORT "
    "(docs/python.md)"
)
_NO_SERVER = "a zone opens no sockets; serve HTTP with ryu.app.wsgi and --wsapi-port, or accept with ryu.lib.hub.listen"
_NO_SOCKET = (
    "a zone opens no sockets; accept connections with ryu.lib.hub.listen and --wsapi-port, and connect from an app of Rosemary's own "
    "interface with the capability net.connect:HOST:PORT"
)
_NO_OVSDB = "a zone opens no connections; use ryu.lib.ovs.bridge or ryu.lib.ovs.vsctl"
_OVSDB = (
    'it needs [[ovsdb]], services = ["ovsdb"], and the capabilities ovsdb.read and ovsdb.write in rosemary.toml (docs/ryu.md#databases-of-switches)'
)

# How an app gets rights for Nicira's and other extensions.
_EXPERIMENTER = "is refused unless the app has the capability experimenter:{id} in rosemary.toml"

NAMES = {
    # Ryu
    "ryu.services.protocols.bgp": "BGP needs sockets, and a zone has none",
    "ryu.services.protocols.vrrp": "VRRP needs raw sockets, and a zone has none",
    "ryu.services.protocols.zebra": "Zebra needs sockets, and a zone has none",
    "ryu.services.protocols.ovsdb": _NO_OVSDB,
    **{f"ryu.lib.ovs{it}": _OVSDB for it in ("", ".bridge", ".vsctl")},
    "ryu.lib.ovs.db_client": _NO_OVSDB,
    "ryu.lib.of_config": "OF-Config needs a connection to the switch, and a zone has no network",
    "ryu.lib.snortlib": "Snort's socket is outside of the zone",
    "ryu.lib.bmp": "BMP needs sockets that the app opens",
    "ryu.lib.netconf": "NETCONF needs a connection, and a zone has no network",
    "ryu.contrib": "this module is not provided",
    "ryu.lib.hub.connect": _NO_NETWORK,
    "ryu.lib.hub.StreamClient": _NO_NETWORK,
    # Processes
    "subprocess": _NO_PROCESS,
    "multiprocessing": _NO_PROCESS,
    "concurrent.futures.ProcessPoolExecutor": f"{_NO_PROCESS}; use ThreadPoolExecutor",
    "pty": _NO_PROCESS,
    "pexpect": _NO_PROCESS,
    "mininet": "a zone starts no processes; run Mininet outside, with --controller remote",
    **{
        f"os.{name}": _NO_PROCESS
        for name in ("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp")
        + tuple(f"exec{it}" for it in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe"))
        + tuple(f"spawn{it}" for it in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe"))
    },
    "os.kill": "a zone sends no signals to other processes",
    "os.killpg": "a zone sends no signals to other processes",
    # The network
    **{
        name: _NO_NETWORK
        for name in (
            *(
                "requests",
                "urllib3",
                "httplib2",
                "httpx",
                "aiohttp",
                "http.client",
                "xmlrpc.client",
                "urllib.request.urlopen",
            ),
            *(
                "urllib.request.urlretrieve",
                "urllib.request.build_opener",
                "smtplib",
                "ftplib",
                "telnetlib",
                "poplib",
                "imaplib",
            ),
            *("nntplib", "paramiko", "netmiko", "ncclient", "pymysql", "MySQLdb", "mysql", "psycopg2", "psycopg", "pymongo"),
            *("redis", "pika", "kafka", "zmq", "paho", "influxdb", "influxdb_client", "elasticsearch", "pysnmp"),
            *("socket.create_connection", "socket.getaddrinfo", "socket.gethostbyname", "eventlet.connect"),
        )
    },
    **{
        name: _NO_SERVER
        for name in (
            *(
                "http.server.HTTPServer",
                "http.server.ThreadingHTTPServer",
                "xmlrpc.server",
                "wsgiref.simple_server.make_server",
            ),
            *(f"socketserver.{it}" for it in ("TCPServer", "UDPServer", "ThreadingTCPServer", "ThreadingUDPServer")),
            *("socket.create_server", "flask"),
        )
    },
    "socket.socket": _NO_SOCKET,
    "socket.socketpair": "a zone opens no sockets; green threads exchange objects with ryu.lib.hub.Queue",
    "scapy": "a zone has no raw sockets; use ryu.lib.packet",
    # Threads of the system
    "eventlet.tpool": "it needs a pair of sockets, which a zone refuses; use threading",
}

# Names that count wherever they are an attribute: their object is known only while the app runs.
_ATTRIBUTES = (
    (
        re.compile(r"NXActionLearn"),
        "the action `learn` writes flows past every check and is refused always; add these flows in the handler of packet-ins",
    ),
    (re.compile(r"NXAction\w+"), "Nicira's action " + _EXPERIMENTER.format(id="0x00002320")),
    (re.compile(r"(NXT|nxt_|send_nxt_|NXFlow|nx_match)\w*"), "Nicira's extension is refused"),
    (re.compile(r"ONFBundle\w+"), "bundles write flows past every check and are refused always"),
    (re.compile(r"ONFFlow\w+"), "this experimenter message " + _EXPERIMENTER.format(id="0x4f4e4600")),
    (
        re.compile(
            r"OFP(Vendor|Experimenter|ExperimenterStatsRequest|ActionVendor|ActionExperimenter\w*|InstructionExperimenter)"
        ),
        "it " + _EXPERIMENTER.format(id="ID"),
    ),
)


def entry(name: str) -> tuple[str, str] | None:
    """Returns the entry for a full dotted name, and why it is not supported; `None` if it is not in the table."""
    package, dot, rest = name.partition(".")
    renamed = package == "os_ken"
    wanted = f"ryu{dot}{rest}" if renamed else name
    while wanted:
        why = NAMES.get(wanted)
        if why is not None:
            return ("os_ken" + wanted.removeprefix("ryu") if renamed else wanted), why
        wanted = wanted.rpartition(".")[0]
    return None


def attribute(name: str) -> str | None:
    """Returns why an attribute of this name is not supported."""
    return next((why for pattern, why in _ATTRIBUTES if pattern.fullmatch(name)), None)
