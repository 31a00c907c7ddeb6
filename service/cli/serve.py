"""`gramwatt serve`: pages, API and periodic work; the tasks alone; a link for a browser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from gramwatt.collectors.cli.options import grouped, show
from gramwatt.collectors.settings.files import why
from gramwatt.service.cli.admin import admin_service
from gramwatt.service.cli.common import DatabaseUrl, author, refusals, service_config, stop


@dataclass(frozen=True, slots=True)
class Server:
    """Where it listens."""

    host: Annotated[str, typer.Option(help="Beyond this machine: see --behind-proxy.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 8642
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="Leave this machine: a proxy in front does TLS.")
    ] = False
    insecure_http: Annotated[
        bool, typer.Option("--insecure-http", help="Leave this machine without TLS.")
    ] = False
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the pages in this machine's browser.")
    ] = False


@dataclass(frozen=True, slots=True)
class Tasks:
    """The periodic work, without pages or API."""

    only_tasks: Annotated[
        bool,
        typer.Option("--only-tasks", help="The periodic work, beside servers that only answer."),
    ] = False
    alive_file: Annotated[
        Path | None, typer.Option(help="With --only-tasks: a file to touch every 2 s, for a probe.")
    ] = None


@dataclass(frozen=True, slots=True)
class Link:
    """A link that signs one browser in."""

    link: Annotated[
        bool,
        typer.Option("--link", help="Print a link that signs a browser in once, within 15 min."),
    ] = False
    url: Annotated[str, typer.Option(help="With --link: where the browser reaches the server.")] = (
        "http://127.0.0.1:8642"
    )
    project: Annotated[
        list[str] | None,
        typer.Option(help="With --link: it sees only this project; may be given again."),
    ] = None


@grouped
def serve(server: Server, tasks: Tasks, link: Link, database_url: DatabaseUrl = None) -> None:
    """Serve the pages and the API, and do the periodic work.

    Of all processes that share a store one does the periodic work; the others wait to take over.
    """
    if tasks.only_tasks and link.link:
        stop(2, "give --only-tasks or --link, not both")
    if tasks.alive_file and not tasks.only_tasks:
        stop(2, "--alive-file is for --only-tasks")
    if link.project and not link.link:
        stop(2, "--project is for --link; a key of one project: gramwatt admin key create")
    if link.link:
        _print_link(link, database_url)
        return
    from gramwatt.service.server import Listen, run, run_scheduler

    try:
        with refusals():
            config = service_config(database_url)
            if tasks.only_tasks:
                run_scheduler(config, tasks.alive_file)
                return
            plain_allowed = server.behind_proxy or server.insecure_http
            listen = Listen(server.host, server.port, plain_allowed=plain_allowed)
            run(config, listen, open_browser=server.open_browser)
    except ValueError as error:
        stop(2, str(error))
    except OSError as error:
        where = f"cannot serve on {server.host}:{server.port}"
        stop(1, f"{where if error.filename is None else error.filename}: {why(error)}")


def _print_link(link: Link, database_url: str | None) -> None:
    from gramwatt.collectors.settings.config import PARSERS
    from gramwatt.service.access.sessions import new_link

    try:
        address = PARSERS["server"](link.url)
    except ValueError as error:
        stop(2, f"--url: {error}")
    if urlsplit(address).path:
        stop(2, "--url: gramwatt's pages need a host name of their own; no path leads to them")
    if not all(link.project or ()):  # as an unset variable of a script gives
        stop(2, "--project: a project's name cannot be empty; leave it out for all projects")
    with admin_service(database_url) as service:
        token = new_link(service, author(), frozenset(link.project or ()) or None)
    show(f"{address}/login?token={token}")
