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


def unwritten_text(job_id: str, why: str) -> str:
    """The message for a job whose journal the disk did not take to its end."""
    text = f"the disk does not take the journal ({why})"
    return f"{text}: the figures of {job_id} are lost, or not whole"
