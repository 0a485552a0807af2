# Hostile clients over TLS, as the attack's name says: tls.py ATTACK CERT KEY [ARGUMENT...]. Prints what the client saw, in one line.
#
#   switch CERT KEY DPID...   presents the certificate to 127.0.0.1:6653 and claims each datapath id, one connection after the other
#   resume CERT KEY HOST PORT sends a request, waits for a line on its input, and resumes the session of that connection
#   idle CERT KEY HOST PORT N holds N connections whose handshake is complete, until its input ends
import socket
import ssl
import struct
import sys

attack, certificate, key, arguments = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
CONTROLLER = ("127.0.0.1", 6653)
HELLO, ECHO_REQUEST, FEATURES_REQUEST, MULTIPART_REQUEST, FLOW_MOD = 0, 2, 5, 18, 14


def context():
    it = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    it.check_hostname = False
    it.verify_mode = ssl.CERT_NONE
    it.load_cert_chain(certificate, key)
    return it


def whole(stream, size):
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return data


def claim(dpid):
    """Claims a datapath id. Returns `admitted` if the controller sends a flow-mod."""
    try:
        stream = context().wrap_socket(socket.create_connection(CONTROLLER, 10))
        stream.settimeout(10)
        stream.sendall(struct.pack("!BBHI", 4, HELLO, 8, 1))
        while True:
            _, kind, size, xid = struct.unpack("!BBHI", whole(stream, 8))
            body = whole(stream, size - 8)
            if kind == FEATURES_REQUEST:
                stream.sendall(struct.pack("!BBHIQIBBHII", 4, 6, 32, xid, int(dpid, 16), 0, 1, 0, 0, 0, 0))
            elif kind == MULTIPART_REQUEST and body[:2] == b"\0\x0d":
                stream.sendall(struct.pack("!BBHIHHI", 4, 19, 16, xid, 13, 0, 0))
            elif kind == ECHO_REQUEST:
                stream.sendall(struct.pack("!BBHI", 4, 3, size, xid) + body)
            elif kind == FLOW_MOD:
                return "admitted"
    except ssl.SSLEOFError:
        return "closed"
    except ssl.SSLError as error:
        return "alert" if "ALERT" in (error.reason or "") else f"error {error.reason}"
    except (ConnectionError, TimeoutError, socket.timeout) as error:
        return "timeout" if isinstance(error, (TimeoutError, socket.timeout)) else "closed"


def request(stream):
    stream.sendall(b"GET /api/v1/apps HTTP/1.1\r\nHost: 192.0.2.1:8443\r\n\r\n")
    return stream.recv(65536)[:12].decode("latin-1")


def resume(host, port):
    def connected(session):
        raw = socket.create_connection((host, int(port)), 20)
        return it.wrap_socket(raw, session=session)

    it = context()
    first = connected(None)
    print(request(first), flush=True)
    session = first.session
    sys.stdin.readline()
    second = connected(session)
    return f"{request(second)} resumed={second.session_reused} ticket={session is not None and session.has_ticket}"


def idle(host, port, count):
    it, held, closed = context(), [], 0
    for _ in range(int(count)):
        try:
            stream = it.wrap_socket(socket.create_connection((host, int(port)), 20))
            held.append(stream)
        except OSError:
            closed += 1
    print(len(held), flush=True)
    sys.stdin.readline()
    return f"{closed} refused"


if attack == "switch":
    print(" ".join(claim(dpid) for dpid in arguments))
elif attack == "resume":
    print(resume(*arguments))
elif attack == "idle":
    print(idle(*arguments))
