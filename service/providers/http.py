"""What every provider offers, and the one HTTP client of all: bounded, patient, never in the way.

An answer has at most `LARGEST_B` bytes and `WHOLE_S` seconds. A host that fails or says "later" is
backed off from by the whole process, in which only the task `refresh-intensity` asks.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

import requests

from gramwatt.collectors.settings.http import new_session
from gramwatt.collectors.settings.keys import is_loopback
from gramwatt.service.config import Account
from gramwatt.service.providers.base import Kind, ProviderError, RestingError, Values

CONNECT_S, READ_S, WHOLE_S = 3.05, 10.0, 30.0
LARGEST_B = 16 * 2**20
REDIRECTS_MOST = 3
FAILURES = 3
"""So many in a row, and requests to the host back off."""
REST_S, REST_MOST_S = 300.0, 3600.0
"""For how long at first, doubled each time, and at most."""
REFUSED_REST_S = 3600.0
"""After a refused key: a person must change it."""
LATER_MOST_S = 86_400.0
"""The longest wait that a Retry-After header may ask for."""

UNUSABLE = ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError
"""What reading an answer in another shape raises."""
T = TypeVar("T")
_log = logging.getLogger("gramwatt.service")


class StatusError(ProviderError):
    """An answer with another status than 200; `body` has its beginning."""

    def __init__(self, host: str, status: int, body: bytes = b"") -> None:
        reasons = {401: "the key is refused", 403: "the key does not allow this"}
        super().__init__(f"{host} answered {status}: {reasons.get(status, 'no data')}")
        self.status, self.body = status, body


@dataclass
class _Host:
    """How a host, or one path of it, has answered lately; times are those of the clock."""

    failures: int = 0
    rest_until: float = 0.0
    rest_s: float = REST_S


class Http:
    """Asks one provider; raises ProviderError for everything that is no usable answer."""

    _hosts: dict[str, _Host] = {}

    def __init__(
        self,
        base: str,
        headers: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        parts = urlsplit(base)
        self._base, self._clock = base.rstrip("/") + "/", clock
        self._host = parts.netloc.rpartition("@")[2]
        self._headers = {"User-Agent": "gramwatt", **(headers or {})}
        if parts.scheme != "https" and not is_loopback(base):
            raise ProviderError(f"{self._host} is not asked without https")

    def ask(
        self, path: str, parse: Callable[[bytes], T], query: Mapping[str, str] | None = None
    ) -> T:
        """Return the parsed answer to GET; an answer that cannot be parsed is a failure of the
        host.
        """
        host, question = self._host, f"{self._host}/{path}"
        self._require_rested(host, question)
        try:
            answer = parse(self._fetch(path, query or {}))
        except StatusError as error:
            if error.status in (401, 403):
                self._rest(question, REFUSED_REST_S)  # a plan may allow the host's others
            elif error.status >= 500:
                self._failed(host)
            raise
        except UNUSABLE as error:
            self._failed(host)
            text = f"{self._host} gave an answer in another shape: {type(error).__name__}"
            raise ProviderError(text) from error
        except ProviderError:
            self._failed(host)
            raise
        for name in (host, question):
            self._hosts.pop(name, None)
        return answer

    def _require_rested(self, *names: str) -> None:
        rests = (self._hosts[name].rest_until for name in names if name in self._hosts)
        rest_s = max(rests, default=0.0) - self._clock()
        if rest_s > 0:
            raise RestingError(f"{self._host}: backing off for another {rest_s:.0f} s")

    def _failed(self, name: str) -> None:
        host = self._hosts.setdefault(name, _Host())
        host.failures += 1
        if host.failures < FAILURES:
            return
        rest_s, host.rest_s = host.rest_s, min(2 * host.rest_s, REST_MOST_S)
        self._rest(name, rest_s)

    def _rest(self, name: str, rest_s: float) -> None:
        host = self._hosts.setdefault(name, _Host())
        host.rest_until = max(host.rest_until, self._clock() + rest_s)
        _log.info("%s: backing off for %.0f s", self._host, rest_s)

    def _fetch(self, path: str, query: Mapping[str, str]) -> bytes:
        url, ends = urljoin(self._base, path.lstrip("/")), time.monotonic() + WHOLE_S
        params: Mapping[str, str] | None = query
        with new_session(repeats=False) as session:
            for _ in range(REDIRECTS_MOST + 1):
                try:
                    with session.get(
                        url,
                        params=params,
                        headers=self._headers,
                        timeout=(CONNECT_S, READ_S),
                        allow_redirects=False,
                        stream=True,
                    ) as answer:
                        body = self._body(answer, ends)
                except requests.RequestException as error:
                    text = f"{self._host} cannot be asked: {type(error).__name__}"
                    raise ProviderError(text) from None
                if answer.status_code == 200:
                    return body
                if not answer.is_redirect:
                    self._note_later(answer)
                    raise StatusError(self._host, answer.status_code, body[:65536])
                url, params = self._target(answer), None
        raise ProviderError(f"{self._host} sends from one address to the next")

    def _body(self, answer: requests.Response, ends: float) -> bytes:
        """Return the whole body, in bounded time and size; requests raises for one that breaks
        off.
        """
        body = bytearray()
        for part in answer.iter_content(65536):
            body += part
            if len(body) > LARGEST_B:
                raise ProviderError(f"{self._host} sent more than {LARGEST_B} bytes")
            if time.monotonic() > ends:
                raise ProviderError(f"{self._host} took more than {WHOLE_S:.0f} s")
        return bytes(body)

    def _target(self, answer: requests.Response) -> str:
        """Return where a redirect leads, if that is the same host and as safe."""
        target = urljoin(answer.url, answer.headers["Location"])
        origin, redirect = urlsplit(answer.url), urlsplit(target)
        if (origin.scheme, origin.netloc) != (redirect.scheme, redirect.netloc):
            raise ProviderError(f"{self._host} sends to {redirect.netloc}, which is not asked")
        return target

    def _note_later(self, answer: requests.Response) -> None:
        if answer.status_code not in (429, 503):
            return
        self._rest(self._host, later_s(answer.headers.get("Retry-After"), REST_S))


def later_s(header: str | None, usual_s: float) -> float:
    """Return the wait that a Retry-After header asks for [s], bounded; the usual without one."""
    text = (header or "").strip()
    if text.isdecimal():
        return min(float(text), LATER_MOST_S)
    try:
        wait_s = parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError):
        return usual_s
    return min(max(wait_s, 0.0), LATER_MOST_S)


class Provider(ABC):
    """A publisher of grid intensity; `longest` is the longest span of one question."""

    name: str
    licence: str
    address: str
    longest: timedelta
    key_header: str | None = None
    """The header that the key is sent in; None where it is a parameter, or there is none."""

    def __init__(self, account: Account) -> None:
        self._key = account.key
        headers = {self.key_header: account.key} if self.key_header else {}
        self._http = Http(account.url or self.address, headers)

    @abstractmethod
    def kinds(self, zone: str) -> Sequence[Kind]:
        """Return what is asked of it for the zone, the preferred kind first; empty for others."""

    @abstractmethod
    def history(self, zone: str, kind: Kind, start: datetime, end: datetime) -> Values:
        """Return what was, within [start, end) and at most `longest`; raises ProviderError."""

    def forecast(self, zone: str, kind: Kind, now: datetime) -> Values | None:
        """Return what is expected from `now` on; None where it makes none. Raises ProviderError."""
        return None
