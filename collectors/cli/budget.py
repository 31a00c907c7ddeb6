"""`gramwatt run --budget`: ask for the project's budget before the command starts, and briefly.

A budget that is not known in time never keeps a command from running, unless `--strict` is given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

from gramwatt.collectors.client.messages import print_message
from gramwatt.collectors.common.config import Config, plain_address

SERVER_LIMIT_S, STORE_LIMIT_S = 1.0, 10.0
"""How long the answer of a server may take, and that of the store [s]: the process that opens it
takes 1.3 s of processor time, and several times as long beside busy neighbours."""
ANSWER_MOST_B = 1_000_000


class BudgetUnknown(Exception):
    """The budget could not be asked for; the text says why."""


def allows(config: Config, *, strict: bool) -> bool:
    """Whether the command may start: not when the budget is spent. Prints what is to be known."""
    try:
        row = _row(config)
        if row is None:
            raise BudgetUnknown(
                f"no budget is set (`gramwatt budget set {config.project} KG` sets one)"
            )
        status, text = str(row["status"]), _text(row)
    except BudgetUnknown as error:
        reason = str(error)
    except Exception as error:  # an answer of another form
        reason = f"the answer cannot be read ({type(error).__name__})"
    else:
        if status == "spent":
            print_message(f"budget: {text}; the command is not started")
            return False
        if status != "within":
            print_message(f"budget: {text}")
        return True
    start = "the command is not started (--strict)" if strict else "the command starts"
    print_message(f"budget of project {config.project!r} is not known: {reason}; {start}")
    return not strict


def _row(config: Config) -> dict[str, Any] | None:
    """The project's budget as `GET /v1/budgets/check` answers it; None where none is set."""
    document = _from_server(config) if config.server else _from_store(config)
    row: dict[str, Any] | None = document["budget"]
    return row


def _text(row: dict[str, Any]) -> str:
    from gramwatt.sci.base import formatting

    spent = row["spent_kg"]
    share = f", {row['spent_share']:.0%}" if row["spent_share"] is not None else ""
    known = formatting.text(spent) if spent else formatting.UNKNOWN
    limit = f"of {row['limit_kg']:g} kgCO2e in {row['for_month']}"
    unknown = f", and {row['jobs_unknown']} jobs not known" if row["jobs_unknown"] else ""
    text = f"project {row['project']!r} has spent {known} {limit}{share}{unknown}"
    return formatting.ascii_units(text)


def _from_store(config: Config) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "gramwatt", "budget", "check", config.project, "--json"]
    env = {**os.environ, "GRAMWATT_HOME": str(config.home)}
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=STORE_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BudgetUnknown(f"the store did not answer within {STORE_LIMIT_S:g} s") from None
    except OSError as error:
        raise BudgetUnknown(f"the store could not be asked ({error.strerror})") from None
    try:
        return _object(done.stdout)
    except ValueError:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        text = said[0].removeprefix("gramwatt: ") if said else "it gave no answer"
        raise BudgetUnknown(f"the store could not be asked: {text[:300]}") from None


def _from_server(config: Config) -> dict[str, Any]:
    shown = plain_address(config.server or "")
    try:
        return _object(_within(SERVER_LIMIT_S, lambda: _get(config)))
    except TimeoutError:
        raise BudgetUnknown(f"{shown} did not answer within {SERVER_LIMIT_S:g} s") from None
    except (OSError, ValueError) as error:
        status = getattr(error, "code", None)
        why = f"it answers {status}" if status else type(error).__name__
        raise BudgetUnknown(f"{shown} could not be asked ({why})") from None


def _get(config: Config) -> bytes:
    import urllib.parse
    import urllib.request

    from gramwatt.collectors.common import server_key

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """Follow none: the key is not for another server."""

    server = config.server or ""
    query = urllib.parse.urlencode({"project": config.project})
    key = config.api_key or server_key.for_server(config.home, server)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(  # noqa: S310  # the configuration takes http and https only
        f"{server}/v1/budgets/check?{query}", headers=headers
    )
    with urllib.request.build_opener(NoRedirect).open(request, timeout=SERVER_LIMIT_S) as answer:
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
