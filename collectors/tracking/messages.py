"""Messages for the user on standard error. Standard library only."""

from __future__ import annotations

import os
import sys

_reported: set[str] = set()


def print_message(text: str) -> None:
    """Write one line to stderr, once per process; silent where stderr is gone."""
    if text not in _reported:
        _reported.add(text)
        write_stderr(f"gramwatt: {text}\n")


def write_stderr(text: str) -> None:
    """Write to stderr and leave nothing in its buffer; silent where it is gone.

    What a closed terminal or a full disk does not take would be written once more when the
    interpreter ends, and the process end with 120 instead of its own exit code.
    """
    stream = sys.stderr
    try:
        if stream is sys.__stderr__ and stream is not None:
            stream.flush()
            os.write(stream.fileno(), text.encode(stream.encoding, "backslashreplace"))
        else:  # somebody's own stream, such as that of a notebook
            stream.write(text)
            stream.flush()
    except (AttributeError, OSError, ValueError):
        pass


def print_notice(notice: str) -> None:
    """Report a notice "code: sentence" as "sentence [code]"."""
    code, colon, sentence = notice.partition(": ")
    print_message(f"{sentence} [{code}]" if colon and " " not in code else notice)


def unwritten_text(job_id: str, why: str) -> str:
    """Return the message for a job whose journal the disk did not take to its end."""
    text = f"the disk does not take the journal ({why})"
    return f"{text}: the figures of {job_id} are lost, or not whole"
