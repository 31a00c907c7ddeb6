"""The command `gramwatt`, also as `python -m gramwatt`: puts the parts together, lazily."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from contextlib import suppress
from typing import Any

COLLECTOR_COMMANDS = frozenset({"run", "sync", "config", "doctor", "top"})
SERVICE_COMMANDS = frozenset(
    (
        *(
            "jobs",
            "job",
            "compare",
            "assert",
            "rm",
            "month",
            "report",
            "export",
            "import",
            "evidence",
            "card",
        ),
        *("intensity", "plan", "budget", "demo"),
        *("serve", "login", "session", "key", "scheduler", "db"),
        "erase",
    )
)

UNWRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EPIPE})
"""Why an output cannot be written; EPIPE, that nobody reads on, needs no words."""


def main() -> None:
    """Run the command line; exits with its code.

    An output that cannot be written is one line, and no locale stops it.
    """
    if sys.stdout is None:  # closed: no other file may get its descriptor, to be printed into
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    with suppress(AttributeError):  # somebody's own stream
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        try:
            _run()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in UNWRITTEN:
            raise
        with suppress(OSError):  # what is left would be written, and fail, once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno != errno.EPIPE:
            print(f"gramwatt: cannot write the output: {error.strerror}", file=sys.stderr)
        sys.exit(1)


def _run() -> None:
    from gramwatt import __version__

    if sys.argv[1:2] in (["--version"], ["-V"]):
        print(f"gramwatt {__version__}")
        return
    from gramwatt.collectors.cli.app import build_app, leave_only
    from gramwatt.collectors.settings.installation import has_service, install_command, local_store

    app = build_app(local_store)
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    # Only what may be asked for is imported: `run` and `sync` must start fast, and a list of jobs
    # needs neither the catalog nor the advice.
    if command == "login" and not has_service():
        app.command()(importlib.import_module("gramwatt.collectors.cli.login").login)
    elif command in SERVICE_COMMANDS and not has_service():
        print(f"gramwatt: `{command}` needs the extra `service`; to install it:", file=sys.stderr)
        print(install_command("service"), file=sys.stderr)
        sys.exit(2)
    if command not in COLLECTOR_COMMANDS:
        if command not in SERVICE_COMMANDS or not has_service():
            _add_engine_commands(app)
        if has_service():
            _add_service_commands(app)
    leave_only(app, command)
    app()


def _add_engine_commands(app: Any) -> None:
    importlib.import_module("gramwatt.collectors.cli.catalog").add_catalog(app)
    for name in ("estimate", "suggest"):
        module = importlib.import_module(f"gramwatt.collectors.cli.{name}")
        app.command(name=name)(module.command)


def _add_service_commands(app: Any) -> None:
    importlib.import_module("gramwatt.service.cli.app").add_commands(app)
    importlib.import_module("gramwatt.service.demo.command").add_demo(app)


if __name__ == "__main__":
    main()
