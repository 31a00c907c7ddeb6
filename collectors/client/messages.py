"""Messages for the user on standard error. Standard library only."""

from __future__ import annotations

import sys

_reported: set[str] = set()


def print_message(text: str) -> None:
    """Write one line to stderr, once per process; silent where stderr is gone."""
    if text in _reported:
        return
    _reported.add(text)
    try:
        sys.stderr.write(f"gramwatt: {text}\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        pass


def print_notice(notice: str) -> None:
    """Report a notice "code: sentence" as "sentence [code]"."""
    code, colon, sentence = notice.partition(": ")
    print_message(f"{sentence} [{code}]" if colon and " " not in code else notice)
