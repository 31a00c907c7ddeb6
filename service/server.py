"""`gramwatt serve`: one process with waitress, the pages, the API and the periodic work.

`gramwatt scheduler` does the periodic work alone.
"""

from __future__ import annotations

import os
import socket
import sys
from ipaddress import ip_address
from typing import Any

from waitress.server import create_server

from gramwatt.service.app import create_app
from gramwatt.service.config import ServiceConfig
from gramwatt.service.container import Service
from gramwatt.service.stopping import Stop
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.tasks.heartbeat import Heartbeat
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
    stop = Stop()
    stop.wake(server.pull_trigger)
    take_in(service)
    heartbeat, scheduler = Heartbeat(service), Scheduler(service)
    heartbeat.start()
    scheduler.start()
    host_text = f"[{address}]" if ":" in address else address
    print(
        f"gramwatt serves http://{host_text}:{server.effective_port}", file=sys.stderr, flush=True
    )
    while not stop.asked:
        _turn(server, 1.0)
    _finish(server, stop)
    heartbeat.stop()
    _end(service, scheduler, stop)


def run_scheduler(config: ServiceConfig) -> None:
    """Do the periodic work, without serving, until SIGTERM or Ctrl-C."""
    service = Service.open(config)
    upgrade(service.store)
    stop = Stop()
    scheduler = Scheduler(service)
    scheduler.start()
    print("gramwatt does the periodic work while it leads", file=sys.stderr, flush=True)
    stop.wait()
    _end(service, scheduler, stop)


def _turn(server: Any, timeout_s: float) -> None:
    """Let waitress handle what its sockets have, or wait for that."""
    server.asyncore.loop(
        timeout=timeout_s, map=server._map, use_poll=server.adj.asyncore_use_poll, count=1
    )


def _finish(server: Any, stop: Stop) -> None:
    """Accept nothing more, and answer the requests that are under way, as long as may be.

    waitress itself would end its loop first, and with it answers that are not sent yet.
    """
    server.asyncore.dispatcher.close(server)
    while stop.left_s > 0 and any(map(_is_busy, list(server.active_channels.values()))):
        _turn(server, 0.05)
    server.task_dispatcher.shutdown(timeout=max(0.1, stop.left_s))


def _is_busy(channel: Any) -> bool:
    """Whether a request of the connection is arriving, being answered or its answer sent."""
    return bool(channel.request or channel.requests or channel.total_outbufs_len)


def _end(service: Service, scheduler: Scheduler, stop: Stop) -> None:
    """Give up the lead after the tasks that run, and end; a task that takes too long is left."""
    if scheduler.stop(stop.left_s):
        service.store.close()
        return
    sys.stderr.flush()
    os._exit(0)  # a task's thread would keep the process; the next leader does the task again


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
