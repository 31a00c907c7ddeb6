"""The samples of a metric as Prometheus has them: each scrape's own time, nothing filled in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gramwatt.collectors.settings.config import plain_address
from gramwatt.collectors.settings.http import Unanswered, exchange, new_session

CHUNK_S = 3600
LIMIT_S = 60.0
"""How long one answer may take [s]; Prometheus gives a query two minutes by default."""


class PrometheusError(Exception):
    """The server cannot be asked or answers with an error; the message says what to do."""


class Series(NamedTuple):
    """One series: its labels and its samples, time [s] and value, in order."""

    labels: dict[str, str]
    samples: list[tuple[float, float]]


class Prometheus:
    """A server by its address; credentials may stand in it, or a token beside it."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._shown = plain_address(self._url)
        self._session = new_session(token)

    def chunks(self, metric: str, from_s: int, to_s: int) -> Iterator[list[Series]]:
        """Yield the metric's series an hour at a time, from `from_s` up to `to_s` [Unix s].

        A range of an instant query has the samples themselves; a range query would repeat the last
        one at each step, which hides gaps. Raises PrometheusError.
        """
        for at_s in range(from_s, to_s, CHUNK_S):
            until_s = min(at_s + CHUNK_S, to_s)
            yield self._samples(f"{metric}[{until_s - at_s}s]", until_s)

    def _samples(self, query: str, at_s: int) -> list[Series]:
        try:
            answer = exchange(
                self._session,
                "POST",
                f"{self._url}/api/v1/query",
                LIMIT_S,
                silence_s=LIMIT_S,
                data={"query": query, "time": str(at_s)},
            )
            document: Any = answer.json()
        except Unanswered as error:
            where = "see that the address is right and reached from here"
            raise PrometheusError(f"{self._shown} {error}; {where}") from None
        except ValueError:
            raise PrometheusError(f"{self._shown} does not answer as Prometheus does") from None
        if not isinstance(document, dict) or document.get("status") != "success":
            said = document.get("error") if isinstance(document, dict) else None
            text = said or f"HTTP {answer.status}"
            raise PrometheusError(f"{self._shown} refuses {query!r}: {text}")
        try:
            return [
                Series(dict(row["metric"]), [(float(t), float(v)) for t, v in row["values"]])
                for row in document["data"]["result"]
            ]
        except (KeyError, TypeError, ValueError):
            raise PrometheusError(f"{self._shown} does not answer as Prometheus does") from None
