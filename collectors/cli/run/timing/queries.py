"""Questions of `gramwatt run` to the server or the store before its command starts, and briefly.

The store is asked by a process of its own: what opens it is no part of the collectors.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

from gramwatt.collectors.common.config import Config, plain_address

ANSWER_MOST_B = 1_000_000


class NoAnswer(Exception):
    """There is no answer in time, or none that can be read; the text says why."""


def ask_store(
    config: Config, command: list[str], limit_s: float, request: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The JSON object that `gramwatt COMMAND` prints within `limit_s` [s]; raises NoAnswer.

    `request` is what it reads as JSON on standard input.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "gramwatt", *command],
            env={**os.environ, "GRAMWATT_HOME": str(config.home)},
            input=json.dumps(request).encode() if request else b"",
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"the store did not answer within {limit_s:.2g} s") from None
    except OSError as error:
        raise NoAnswer(f"the store could not be asked ({error.strerror})") from None
    try:
        return _object(done.stdout)
    except ValueError:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        text = said[0].removeprefix("gramwatt: ") if said else "it gave no answer"
        raise NoAnswer(f"the store could not be asked: {text[:300]}") from None


def ask_server(
    config: Config, path: str, limit_s: float, request: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The JSON object at a path of the server within `limit_s` [s]; raises NoAnswer.

    With a `request` that is posted as JSON.
    """
    shown = plain_address(config.server or "")
    try:
        return _object(_within(limit_s, lambda: _get(config, path, limit_s, request)))
    except TimeoutError:
        raise NoAnswer(f"{shown} did not answer within {limit_s:.2g} s") from None
    except (OSError, ValueError) as error:
        status = getattr(error, "code", None)
        why = f"it answers {status}" if status else type(error).__name__
        raise NoAnswer(f"{shown} could not be asked ({why})") from None


def _get(config: Config, path: str, limit_s: float, document: Mapping[str, Any] | None) -> bytes:
    import urllib.request

    from gramwatt.collectors.common import server_key

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """Follow none: the key is not for another server."""

    server = config.server or ""
    key = config.api_key or server_key.for_server(config.home, server)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = None
    if document is not None:
        headers["Content-Type"], body = "application/json", json.dumps(document).encode()
    request = urllib.request.Request(  # noqa: S310  # the configuration takes http and https only
        f"{server}{path}", data=body, headers=headers
    )
    with urllib.request.build_opener(NoRedirect).open(request, timeout=limit_s) as answer:
        content: bytes = answer.read(ANSWER_MOST_B)
    return content


def _object(content: bytes) -> dict[str, Any]:
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return document


def _within(limit_s: float, ask: Callable[[], bytes]) -> bytes:
    """What `ask` returns; raises TimeoutError after `limit_s` [s], or what `ask` does.

    A timeout of a socket starts again with every byte, and looking up a name has none.
    """
    answers: list[bytes | Exception] = []

    def work() -> None:
        try:
            answers.append(ask())
        except Exception as error:
            answers.append(error)

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_s)
    if not answers:
        raise TimeoutError
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]
