"""The one HTTP client of the collectors: a deadline for the whole exchange, and no redirects.

`requests` is imported when it is first used: it takes 0.1 s.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from gramwatt.collectors.common.background import in_background
from gramwatt.collectors.common.server_key import may_go_to

if TYPE_CHECKING:
    import requests

Result = TypeVar("Result")

TIMEOUT_S = (3.05, 10.0)
"""Connecting and reading [s]; the first is above TCP's 3 s retransmission, as requests advises."""


def new_session(api_key: str | None = None, *, repeats: bool = True) -> requests.Session:
    """Return a session that sends this key, and repeats what is safe.

    POST is safe too: lines have identities, and a plan changes nothing.
    """
    from requests.auth import HTTPBasicAuth
    from requests.utils import get_auth_from_url
    from urllib3.util.retry import Retry

    from gramwatt.collectors.common.direct import direct_session

    retry = Retry(
        total=2 if repeats else 0,
        connect=1 if repeats else 0,
        read=False,
        respect_retry_after_header=False,
        backoff_factor=0.3,
        status_forcelist=(429, 502, 503, 504),
        allowed_methods=None,
        raise_on_status=False,
    )
    session = direct_session(retry)

    def show_key(request: requests.PreparedRequest) -> requests.PreparedRequest:
        name, word = get_auth_from_url(request.url or "")
        if name or word:
            HTTPBasicAuth(name, word)(request)
        elif api_key and may_go_to(api_key, request.url or ""):
            request.headers["Authorization"] = f"Bearer {api_key}"
        return request

    session.auth = show_key  # without one, requests sends what ~/.netrc has in place of the key
    return session


def exchange(
    session: requests.Session,
    method: str,
    url: str,
    limit_s: float,
    *,
    silence_s: float | None = None,
    **content: Any,
) -> requests.Response:
    """Return the answer to a request within `limit_s` [s]; `content` is as requests takes it.

    A server that sends nothing for `silence_s`, else TIMEOUT_S [s], is given up before.

    Raises TimeoutError, which says the time, or requests.RequestException where none can be had. A
    redirect is an answer like any other: keys and journals are not for another server.
    """
    import requests
    from urllib3.exceptions import ProtocolError

    most_s = TIMEOUT_S[1] if silence_s is None else silence_s
    timeout = min(TIMEOUT_S[0], limit_s), min(most_s, limit_s)

    def send() -> requests.Response:
        return session.request(method, url, timeout=timeout, allow_redirects=False, **content)

    def send_again_if_closed() -> requests.Response:
        try:
            return send()
        except requests.ConnectionError as error:
            if not (error.args and isinstance(error.args[0], ProtocolError)):
                raise
            # The server has closed the kept connection, as gunicorn does after a refusal for which
            # it had not read the body.
            return send()

    try:
        return within(limit_s, send_again_if_closed)
    except requests.Timeout:
        raise TimeoutError(f"does not answer within {timeout[1]:g} s") from None


def within(limit_s: float, work: Callable[[], Result]) -> Result:
    """Return what `work` does; raises TimeoutError after `limit_s` [s], or what `work` does.

    A socket's timeout starts again with every byte, so a server that sends slowly could hold us for
    ever; looking up a name has none. Late work goes on in a thread that ends with the process, and
    that takes no signal from the thread that waits for it.
    """
    results: SimpleQueue[tuple[Result | None, Exception | None]] = SimpleQueue()

    def run() -> None:
        try:
            results.put((work(), None))
        except Exception as error:
            results.put((None, error))

    in_background(run)
    try:
        result, error = results.get(timeout=limit_s)
    except Empty:
        raise TimeoutError(f"does not answer within {limit_s:g} s") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # None only where `work` returns it
