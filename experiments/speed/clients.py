#!/usr/bin/env python3
"""Clients of Rosemary's interface: subscribers of events, and requests at a constant rate. `speed.py` starts it.

It prints one line when all subscribers are connected. On SIGTERM it prints, as JSON, how many subscribers still receive, how
many requests were answered with 200, and how many were not.
"""

import asyncio
import json
import signal
import sys

PATHS = ["/api/v1/switches", "/api/v1/apps", "/api/v1/status", "/metrics"]


async def subscribe(at, open_streams):
    """Follows the events until the server closes the stream."""
    reader, writer = await asyncio.open_connection(*at)
    host = f"{at[0]}:{at[1]}"
    writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n".encode())
    if b" 200 " not in await reader.readline():
        raise SystemExit("a subscriber was refused")
    open_streams.add(writer)

    async def follow():
        while await reader.read(65536):
            pass
        open_streams.discard(writer)

    return asyncio.create_task(follow())


async def request(at, path):
    """Returns whether the answer was 200."""
    try:
        reader, writer = await asyncio.open_connection(*at)
        host = f"{at[0]}:{at[1]}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        status = await reader.readline()
        await reader.read()
        writer.close()
        return b" 200 " in status
    except OSError:
        return False


async def run(at, subscribers, rate):
    open_streams = set()
    followers = [await subscribe(at, open_streams) for _ in range(subscribers)]
    print("connected", flush=True)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    requests, sent = [], 0
    while not stopped.is_set():
        requests.append(asyncio.create_task(request(at, PATHS[sent % len(PATHS)])))
        sent += 1
        await asyncio.sleep(1 / rate)
    answers = await asyncio.gather(*requests)
    print(json.dumps({"open": len(open_streams), "answered": sum(answers), "failed": answers.count(False)}))
    for follower in followers:
        follower.cancel()


if __name__ == "__main__":
    host, port, subscribers, rate = sys.argv[1:]
    asyncio.run(run((host, int(port)), int(subscribers), float(rate)))
