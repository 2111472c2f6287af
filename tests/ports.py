"""Ports that stay one's own while nobody listens on them."""

import socket


def hold_port() -> socket.socket:
    """Return a socket of loopback that is bound and never listens.

    Until it is closed its port is given to nobody who asks for any free one, connections to it are
    refused, and a server that is told to use it can (servers set ``SO_REUSEADDR``, as this does).
    So a server that is away for a while finds its port as it left it.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def port_of(held: socket.socket) -> int:
    """Return the port that a socket is bound to."""
    port: int = held.getsockname()[1]
    return port
