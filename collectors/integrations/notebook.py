"""IPython and Jupyter: `%load_ext gramwatt`.

    %gramwatt on --zone DE --unit image     a job from here on, each cell a window of it
    %gramwatt off                           end it and print its line, as `gramwatt run` does
    %%gramwatt --zone DE                    as first line: this cell alone is a job

Built on IPython's events, so cells run as they always do: `await` works at the top level.
"""

from __future__ import annotations

import shlex
from typing import Any

from gramwatt.collectors.track.messages import print_message
from gramwatt.collectors.track.track import Job, Tracker, Window, track

CELL_MAGIC = "%%gramwatt"
USAGE = "%gramwatt on [--project NAME] [--unit NAME] [--zone DE] ... or %gramwatt off"
LINE_S = 20.0
"""How long the end of a job waits for its line [s]: a person looks at it."""


class Notebook:
    """The job of a notebook, of which one at a time runs, and the windows of its cells."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._tracker: Tracker | None = None
        self._job: Job | None = None
        self._window: Window | None = None
        self._cells: dict[str, int] = {}
        self._one_cell = False

    def command(self, line: str) -> Any:
        """Handle `%gramwatt`: `on` says so and returns the job, `off` prints its figures; a line
        each.
        """
        word, _, options = line.strip().partition(" ")
        if word == "on":
            job = self._begin(_options(options))
            if job.id is not None:
                print_message(f"measuring as {job.id}, each cell a window; to end: %gramwatt off")
            return job
        if word == "off" and self._end() is not None:
            return None
        print_message("no job runs in this notebook" if word == "off" else USAGE)
        return None

    def before_cell(self, info: Any) -> None:
        """Begin the job of a cell that asks for one, else the cell's window."""
        first, _, _ = (info.raw_cell or "").lstrip().partition("\n")
        if first.startswith(CELL_MAGIC):
            self._begin(_options(first.removeprefix(CELL_MAGIC)))
            self._one_cell = True
        elif self._job is not None:
            number = self._cells.setdefault(
                getattr(info, "cell_id", None) or f"run-{self._shell.execution_count}",
                len(self._cells) + 1,
            )
            self._window = self._job.window(f"cell-{number}")
            self._window.__enter__()

    def after_cell(self, result: Any) -> None:
        """Close the cell's window, or end its job, whose line is printed."""
        window, self._window = self._window, None
        if window is not None:
            window.__exit__(None, None, None)
        if self._one_cell:
            self._one_cell = False
            error = getattr(result, "error_before_exec", None) or result.error_in_exec
            self._end(error)

    def _begin(self, options: dict[str, str]) -> Job:
        self._end()
        self._cells.clear()
        self._tracker = track(**options)  # type: ignore[call-overload]  # it names what it lacks
        self._job = self._tracker.start()
        return self._job

    def _end(self, error: BaseException | None = None) -> Job | None:
        tracker, self._tracker = self._tracker, None
        job, self._job = self._job, None
        if tracker is not None:
            if job is not None:
                job.end_waits_for_line(LINE_S)
            tracker.__exit__(type(error) if error else None, error, None)
        return job


def strip_cell_magic(lines: list[str]) -> list[str]:
    """Return the lines of a cell without `%%gramwatt`, which its events have seen."""
    return lines[1:] if lines and lines[0].lstrip().startswith(CELL_MAGIC) else lines


def load_ipython_extension(shell: Any) -> None:
    """Add the magic and the events; loading it again changes nothing."""
    if getattr(shell, "_gramwatt", None) is not None:
        return
    notebook = shell._gramwatt = Notebook(shell)

    shell.register_magic_function(notebook.command, "line", "gramwatt")
    shell.input_transformers_cleanup.append(strip_cell_magic)
    shell.events.register("pre_run_cell", notebook.before_cell)
    shell.events.register("post_run_cell", notebook.after_cell)


def _options(text: str) -> dict[str, str]:
    """Return the options of `track` out of `--project vision --unit=image zone=DE`."""
    options = {}
    words = shlex.split(text)
    while words:
        word = words.pop(0)
        key, equals, value = word.removeprefix("--").partition("=")
        if not equals and word.startswith("--") and words:
            equals, value = "=", words.pop(0)
        if equals:
            options[key.replace("-", "_")] = value
        else:
            print_message(f"{word!r} is ignored: {USAGE}")
    return options
