"""Messages for the user on standard error. Standard library only."""

from __future__ import annotations

import codecs
import os
import stat
import sys

from gramwatt.collectors.settings.platform import is_set

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SPELT = "gramwatt.spelt"
"""Handler of characters that an encoding lacks: `errors` of a stream."""
_reported: set[str] = set()


def _spelt(error: UnicodeError) -> tuple[str | bytes, int]:
    """Spell the micro sign with a letter, and narrow spaces wide; escape all else."""
    if isinstance(error, UnicodeEncodeError):
        letters = {"µ": "u", "\u202f": " ", "\u00a0": " ", "…": "...", "−": "-"}
        if (character := error.object[error.start]) in letters:
            return letters[character], error.start + 1
    return codecs.backslashreplace_errors(error)


codecs.register_error(SPELT, _spelt)


def quiet() -> bool:
    """Say whether GRAMWATT_QUIET asks for no line at a job's end."""
    return is_set("GRAMWATT_QUIET")


def print_message(text: str) -> None:
    """Write one line to stderr, once per process; silent where stderr is gone."""
    if text not in _reported:
        _reported.add(text)
        # Texts of others, such as a server's answer, must not change what a terminal shows.
        lines = "".join(c if c.isprintable() or c == "\n" else " " for c in f"gramwatt: {text}")
        write_stderr(f"{line_begin()}{wrap(lines, _columns())}\n")


def print_lines(lines: Sequence[str]) -> None:
    """Write lines to stderr, those of a table as they are."""
    width = _columns()
    rows = (line if line.startswith(" ") else wrap(line, width) for line in lines)
    write_stderr(line_begin() + "".join(f"{row}\n" for row in rows))


def write_stderr(text: str) -> None:
    """Write to stderr and leave nothing in its buffer; silent where it is gone.

    What a closed terminal or a full disk does not take would be written once more when the
    interpreter ends, and the process end with 120 instead of its own exit code.
    """
    stream = sys.stderr
    try:
        if stream is sys.__stderr__ and stream is not None:
            stream.flush()
            os.write(stream.fileno(), text.encode(stream.encoding, SPELT))
        else:  # somebody's own stream, such as that of a notebook
            stream.write(text)
            stream.flush()
    except Exception:  # also a RuntimeError of a handler of a signal that came during another write
        return


def line_begin() -> str:
    """Return what has the next text on stderr begin a line, behind a progress bar that ended none.

    As many blanks as a terminal is wide end in the next line, unless the cursor begins one: then
    they fill it, and the return leads back. Elsewhere the last byte of a file tells, or tqdm.
    """
    if os.environ.get("TERM") != "dumb" and (columns := _columns()):
        return " " * columns + "\r"
    return "\n" if _ends_within_line() or _has_bar() else ""


def _ends_within_line() -> bool:
    """Tell whether stderr is a file whose last line has no end."""
    try:
        number = sys.__stderr__.fileno() if sys.stderr is sys.__stderr__ and sys.stderr else -1
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return False
        with open(f"/proc/self/fd/{number}", "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except (AttributeError, OSError, ValueError):  # none, an empty one, or one we may not read
        return False


def _has_bar() -> bool:
    """Tell whether this process shows a bar of tqdm, which has ended no line yet."""
    bars = getattr(getattr(sys.modules.get("tqdm.std"), "tqdm", None), "_instances", ())
    return any(not bar.disable for bar in list(bars))


def _columns() -> int:
    """Return the width of the terminal that stderr is; 0 where it is none."""
    try:
        return os.get_terminal_size(sys.__stderr__.fileno()).columns if sys.__stderr__ else 0
    except (OSError, ValueError):
        return 0


def wrap(text: str, columns: int) -> str:
    """Return a text in lines that fit so many columns, broken between words.

    A command in backticks stays whole, to be copied. 0 columns: it is no terminal, or does not say.
    """
    parts = text.split("`")
    parts[1::2] = [code.replace(" ", "\0") for code in parts[1::2]]
    lines = [""]
    for word in "`".join(parts).split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and 0 < columns < len(joined):
            lines.append(f"  {word}")
        else:
            lines[-1] = joined
    return "\n".join(lines).replace("\0", " ")


def unwritten_text(job_id: str, why: str) -> str:
    """Return the message for a job whose journal the disk did not take to its end."""
    text = f"the disk does not take the journal ({why})"
    return f"{text}: the figures of {job_id} are lost, or not whole"
