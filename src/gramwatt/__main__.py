"""The command `gramwatt`, also as `python -m gramwatt`: puts the parts together, lazily."""

from __future__ import annotations

import errno
import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

from gramwatt import __version__
from gramwatt.collectors.track.messages import SPELT

STAYS = frozenset({"serve", "top"})
"""Commands that last: they collect garbage as often as any program."""
GARBAGE = 250_000
"""Objects made before the others look for garbage, which is a tenth of what a short one costs."""
UNWRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EPIPE})
"""Why an output cannot be written; EPIPE, that nobody reads on, needs no words."""


def main() -> None:
    """Run the command line; exits with its code.

    An output that cannot be written is one line, and no locale stops it.
    """
    if sys.stdout is None:  # closed: no other file may get its descriptor, to be printed into
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    with suppress(AttributeError):  # somebody's own stream
        sys.stdout.reconfigure(errors=SPELT)  # type: ignore[union-attr]
    try:
        try:
            _run()
        finally:
            sys.stdout.flush()
            gc.freeze()  # Python looks for garbage once more as it ends
    except OSError as error:
        if error.filename is not None or error.errno not in UNWRITTEN:
            raise
        with suppress(OSError):  # what is left would be written, and fail, once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno != errno.EPIPE:
            print(f"gramwatt: cannot write the output: {error.strerror}", file=sys.stderr)
        sys.exit(1)


def _run() -> None:
    from gramwatt.collectors.cli import app

    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    command = app.COMMANDS.get(name)
    if name in ("--version", "-V"):
        print(f"gramwatt {__version__}")
    elif name in ("--help", "-h", "help"):
        print(app.help_text())
    elif command is None:
        _end(f"gramwatt: {app.unknown_text(sys.argv[1:])}")
    else:
        from gramwatt.collectors.settings import installation

        has_service = installation.has_service()
        if not has_service and name in app.OF_SERVER:
            from gramwatt.collectors.cli import server

            has_service = server.is_set()
        if command.needs_service and not has_service:
            install = installation.install_command("service")
            _end(f"gramwatt: `{name}` needs the extra `service`; to install it:\n{install}")
        if name not in STAYS:
            gc.set_threshold(GARBAGE)
        app.build_app(installation.local_store, [name])()


def _end(text: str) -> NoReturn:
    """Exit with wrong usage."""
    print(text, file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
