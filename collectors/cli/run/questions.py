"""Questions of `gramwatt run` to the server or the store, with a limit of time.

Both give the same documents: those of the server's routes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from gramwatt.collectors.common import http
from gramwatt.collectors.common.config import Config, plain_address
from gramwatt.collectors.common.installation import LocalStore
from gramwatt.sci.base.errors import GramwattError

Document = Mapping[str, Any]


class NoAnswer(Exception):
    """There is no answer in time, or none that can be read; the text says why."""


@dataclass(frozen=True, slots=True)
class Questions:
    """What can be asked: the server of `config`, or else what `open_store` gives, None without one.

    Every method takes the time that the answer may take [s], and raises NoAnswer.
    """

    config: Config
    open_store: Callable[[], LocalStore | None]

    def plan(self, request: Document, limit_s: float) -> Document:
        """Return the plan for a request, as of POST /v1/plans."""
        return self._ask(
            limit_s, lambda store: store.plan(self.config.home, request), "/v1/plans", request
        )

    def usual_jobs(self, name: str, most: int, limit_s: float) -> list[Document]:
        """Return the heads of the newest completed jobs of this name in the project."""
        project = self.config.project
        only = {"project": project, "name": name, "state": "completed", "limit": str(most)}
        answer = self._ask(
            limit_s,
            lambda store: {"jobs": store.newest_jobs(self.config.home, project, name, most)},
            f"/v1/jobs?{urlencode(only)}",
        )
        return list(answer["jobs"])

    def budget(self, limit_s: float) -> Document:
        """Return the project's budget as it stands, as of GET /v1/budgets/check."""
        project = self.config.project
        return self._ask(
            limit_s,
            lambda store: store.budget(self.config.home, project),
            f"/v1/budgets/check?{urlencode({'project': project})}",
        )

    def _ask(
        self,
        limit_s: float,
        of_store: Callable[[LocalStore], Document],
        path: str,
        request: Document | None = None,
    ) -> Document:
        if self.config.server:
            return _of_server(self.config, self.config.server, path, request, limit_s)
        store = self.open_store()
        if store is None:
            raise NoAnswer("the store could not be asked: it needs the extra `service`")
        try:
            return http.within(limit_s, lambda: of_store(store))
        except TimeoutError:
            raise NoAnswer(f"the store did not answer within {limit_s:.2g} s") from None
        except GramwattError as error:
            raise NoAnswer(error.message) from None
        except Exception as error:  # such as a home that cannot be written
            raise NoAnswer(f"the store could not be asked: {error}") from None


def _of_server(
    config: Config, server: str, path: str, request: Document | None, limit_s: float
) -> Document:
    """Return the JSON object at a path of the server; a `request` is posted as JSON."""
    from gramwatt.collectors.client.api import Client
    from gramwatt.collectors.client.errors import ApiError

    shown = plain_address(server)
    key = config.key_for(server) or ""  # none: not that of another server
    try:
        with Client(server, key, limit_s) as client:
            document = client.get(path) if request is None else client.plan(**request)
    except ApiError as error:
        if isinstance(error.__cause__, http.Unanswered):
            raise NoAnswer(f"{shown} {error.__cause__}") from None
        raise NoAnswer(f"{shown} could not be asked (it answers {error.status})") from None
    if not isinstance(document, dict):
        raise NoAnswer(f"{shown} could not be asked (its answer is no object)")
    return document
