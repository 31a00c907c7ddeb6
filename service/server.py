"""`gramwatt serve`: one process with waitress, the pages, the API and the periodic work."""

from __future__ import annotations

import signal
import socket
import sys
from ipaddress import ip_address
from types import FrameType

from waitress.server import create_server

from gramwatt.service.app import create_app
from gramwatt.service.config import ServiceConfig
from gramwatt.service.container import Service
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.tasks.scheduler import Scheduler
from gramwatt.service.usecases.local_spool import take_in

THREADS = 8


class NotLoopbackError(ValueError):
    """An address that other machines can reach; refused, because the server has no API keys yet."""


def run(config: ServiceConfig, host: str, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C; raises NotLoopbackError, or OSError for a port in use."""
    address = loopback(host)
    service = Service.open(config)
    upgrade(service.store)
    server = create_server(
        create_app(service=service),
        sockets=[_bound(address, port)],
        threads=THREADS,
        ident="gramwatt",
        clear_untrusted_proxy_headers=True,
    )
    take_in(service)
    scheduler = Scheduler(service)
    scheduler.start()
    host_text = f"[{address}]" if ":" in address else address
    print(
        f"gramwatt serves http://{host_text}:{server.effective_port}", file=sys.stderr, flush=True
    )
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        server.run()
    finally:
        server.close()
        scheduler.stop()
        service.store.close()


def _bound(address: str, port: int) -> socket.socket:
    """A socket on the address; raises OSError when it is in use."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
    except OSError:
        bound.close()
        raise
    return bound


def loopback(host: str) -> str:
    """The numeric loopback address that `host` names; raises NotLoopbackError for any other."""
    address = "127.0.0.1" if host.lower() == "localhost" else host.strip("[]")
    try:
        if ip_address(address).is_loopback:
            return address
    except ValueError:
        pass
    raise NotLoopbackError(
        f"will not serve on {host!r}: there are no API keys yet, so anyone who can connect could "
        "read and change every job. Use 127.0.0.1 or ::1, and a tunnel (ssh -L) from elsewhere"
    )


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    # waitress ends its loop on KeyboardInterrupt, with requests under way finished.
    raise KeyboardInterrupt
