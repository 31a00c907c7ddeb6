"""How far long work is, on stderr where that is a terminal; else nothing is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


def each(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Yield the items, with a bar that says how many of them are done."""
    with bar(what) as report:
        for done, item in enumerate(items):
            report(done, len(items))
            yield item


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar; what it gives is called with how much is done, and of how much."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what)
        yield lambda done, total: shown.update(task, completed=done, total=total)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show that the work is in progress where nobody knows how much is left."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield
