"""`gramwatt serve`: one process with waitress, the pages, the API and the periodic work.

`gramwatt serve --only-tasks` does the periodic work alone.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import webbrowser
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path

from waitress.server import create_server

from gramwatt.collectors.settings.keys import ensure_home_key
from gramwatt.service import logs
from gramwatt.service.access import keys
from gramwatt.service.access.sessions import new_link
from gramwatt.service.app import create_app
from gramwatt.service.config import Form, ServiceConfig
from gramwatt.service.container import Service
from gramwatt.service.jobs.local_spool import ingest_local_spool
from gramwatt.service.rendering import end_child, render_in_child
from gramwatt.service.stopping import Stop
from gramwatt.service.store.migrate import is_current, upgrade
from gramwatt.service.tasks.leader import Heartbeat
from gramwatt.service.tasks.rescoring import ScoringWorker
from gramwatt.service.tasks.scheduler import Scheduler

THREADS = 12
"""At most four do what takes long (api/heavy.py), three wait for a score, two for a provider."""
SETTINGS = {
    "connection_limit": 800,  # the usual limit of a process is 1024 files
    "asyncore_use_poll": True,  # select() ends at file 1023
    "channel_timeout": 75,
}
"""How waitress is set up beside its defaults."""
SENDING_S = 0.5
"""How long a stopping server goes on sending what it has answered [s]."""


class NotLoopbackError(ValueError):
    """An address that other machines can reach, and nothing that would make that safe."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to serve; `plain_allowed`: keys may pass the network, or a proxy's, unencrypted."""

    host: str = "127.0.0.1"
    port: int = 8642
    plain_allowed: bool = False


def run(config: ServiceConfig, listen: Listen, *, open_browser: bool = False) -> None:
    """Serve until SIGTERM or Ctrl-C; raises NotLoopbackError, or OSError for a port in use."""
    service = Service.open(config)
    address = _address(service, listen)
    service = replace(service, config=replace(config, hosts=(*config.hosts, _shown(address))))
    upgrade(service.store)
    logs.set_up(config.log)  # that the database is away now, the command says itself
    ensure_home_key(config.home)
    worker = ScoringWorker(service)
    app = create_app(service=replace(service, score_later=worker.add))
    server = create_server(
        app,
        sockets=[_bound(address, listen.port)],
        threads=THREADS,
        ident="gramwatt",
        clear_untrusted_proxy_headers=not config.trusted_proxies,  # else the app decides
        max_request_body_size=2 * config.max_body_b,  # the app refuses with a problem document
        **SETTINGS,
    )
    # Requests that wait for a thread are no news: it would be a line for each.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    stop = Stop(service.stopping)
    render_in_child()
    ingest_local_spool(service)
    heartbeat, scheduler = Heartbeat(service), Scheduler(service)
    heartbeat.start()
    worker.start()
    scheduler.start()
    url = f"http://{_shown(address)}:{server.effective_port}"
    logs.announce(config.log, f"gramwatt serves {url}")
    # A log is kept and read by others, so no link that signs in stands in one.
    if ip_address(address).is_loopback and (open_browser or config.log == "text"):
        token = new_link(service, keys.SERVER)
        _print_login_link(f"{url}/login?token={token}", config.log, open_browser=open_browser)
    connections = threading.Thread(target=server.run, name="connections", daemon=True)
    connections.start()
    stop.wait()
    server.task_dispatcher.shutdown(timeout=stop.left_s)  # requests that are being answered
    connections.join(min(SENDING_S, stop.left_s))
    end_child()
    heartbeat.stop()
    _end(service, scheduler, stop, worker)


def run_scheduler(config: ServiceConfig, alive: Path | None = None) -> None:
    """Do the periodic work, without serving, until SIGTERM or Ctrl-C; `alive` is touched as long
    as it does.
    """
    service = Service.open(config)
    upgrade(service.store)
    logs.set_up(config.log)
    stop = Stop()
    scheduler = Scheduler(service, alive=alive)
    scheduler.start()
    logs.announce(config.log, "gramwatt does the periodic work while it leads")
    stop.wait()
    _end(service, scheduler, stop)


def _end(
    service: Service, scheduler: Scheduler, stop: Stop, worker: ScoringWorker | None = None
) -> None:
    """Give up the lead after the tasks that run, and end; a task that takes too long is left."""
    scored = worker is None or worker.stop(stop.left_s)
    if scheduler.stop(stop.left_s) and scored:
        service.store.close()
        return
    sys.stderr.flush()
    os._exit(0)  # a task's thread would keep the process; the next leader does the task again


def _print_login_link(link: str, form: Form, *, open_browser: bool) -> None:
    """Open the link that signs one browser in, or print it; a log says how to get another."""
    if open_browser and webbrowser.open(link):
        return
    if form == "json":
        logs.announce(
            form, "no browser could be opened; `gramwatt serve --link` prints a link to open"
        )
    else:
        print(
            f"open {link} (once, within 15 minutes; then: gramwatt serve --link)", file=sys.stderr
        )


def _shown(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _bound(address: str, port: int) -> socket.socket:
    """Return a socket on the address; raises OSError when it is in use."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
    except OSError:
        bound.close()
        raise
    return bound


def _address(service: Service, listen: Listen) -> str:
    """Return the numeric address to serve on; raises NotLoopbackError."""
    host = "127.0.0.1" if listen.host.lower() == "localhost" else listen.host.strip("[]")
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        _require_safe(service, listen)
    if address is None:
        raise NotLoopbackError(
            f"will not serve on {host!r}: name an address of this machine, such as 127.0.0.1"
        )
    return str(address)


def _require_safe(service: Service, listen: Listen) -> None:
    """Raise NotLoopbackError unless there are keys, and somebody has thought of TLS."""
    if not (is_current(service.store) and keys.has_keys(service)):
        raise NotLoopbackError(
            f"will not serve on {listen.host!r}: there are no API keys yet. Make one first: "
            "gramwatt admin key create NAME --scope ingest; or use 127.0.0.1 and a tunnel (ssh -L)"
        )
    if not listen.plain_allowed:
        raise NotLoopbackError(
            f"will not serve on {listen.host!r}: keys would pass the network unencrypted. Put a "
            "proxy with TLS in front and say --behind-proxy, or accept it with --insecure-http"
        )
