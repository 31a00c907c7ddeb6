"""The one way to ask a server: a deadline for the whole exchange, a bound for its answer.

No redirect is followed, since keys and journals are not for another server. Only what reads the
counters of a model server follows them, as Prometheus does. An address of this machine is never
asked through a proxy of the environment: what goes there, such as the key of its server, is for
this machine alone. `requests` is imported when it is first used: it takes 0.1 s.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from gramwatt.collectors.settings.background import in_background
from gramwatt.collectors.settings.keys import is_loopback, may_go_to

if TYPE_CHECKING:
    import requests

Result = TypeVar("Result")

TIMEOUT_S = (3.05, 10.0)
"""Connecting and reading [s]; the first is above TCP's 3 s retransmission, as requests advises."""
REPEATED_S = 1.0
"""Within which time what failed is asked again [s]."""
AUTHORITIES = "SSL_CERT_FILE"
"""The variable with a file of certificate authorities, in place of the usual ones."""
UNKNOWN_ISSUER = range(18, 22)
"""OpenSSL's codes for a certificate that no known authority has signed (x509_vfy.h)."""
UNREACHED = {
    "OSError": f"there is no file of authorities where {AUTHORITIES} or REQUESTS_CA_BUNDLE says",
    "InvalidSchema": "the proxy in the environment is of a kind that cannot be used; http:// can",
    "InvalidProxyURL": "the proxy in the environment is not an address",
    "LocationParseError": "the address, or that of the proxy in the environment, is not valid",
}
"""What errors without words of the system mean, by their class."""
LARGEST_B = 256 * 2**20
"""Size of the largest answer that is read [B], unless a caller allows less."""


class Answer(NamedTuple):
    """What a server answered, whatever its status."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Return the body's JSON; raises ValueError."""
        try:
            return json.loads(self.body)
        except RecursionError:
            raise ValueError("nested too deep") from None

    def document(self) -> dict[str, Any] | None:
        """Return the JSON object in the body; None where there is none, as of another server."""
        try:
            document = self.json()
        except ValueError:
            return None
        return document if isinstance(document, dict) else None

    @property
    def later(self) -> bool:
        """Whether the same question may have another answer later."""
        return self.status in (408, 425, 429) or self.status >= 500

    @property
    def strange(self) -> str:
        """What to say behind the address of an answer that is not as gramwatt answers."""
        if self.later:
            wait_s = self.headers.get("Retry-After", "")
            after = f" and asks to come again in {wait_s} s" if wait_s.isdecimal() else ""
            return f"answers {self.status}{after}"
        if 300 <= self.status < 400 and (place := self.headers.get("Location")):
            return f"redirects to {place[:200]}; check the address"
        return f"answers {self.status}, not as gramwatt does; check the address"


class Unanswered(OSError):
    """No whole answer came. `late`: not in time; `refused`: nobody listens there.

    The text follows the server's name in a message; `reason` is the cause alone. Neither has the
    address.
    """

    def __init__(self, reason: str, *, late: bool = False, refused: bool = False) -> None:
        super().__init__(reason if late else f"cannot be reached ({reason})")
        self.reason, self.late, self.refused = reason, late, refused


def new_session(
    api_key: str | None = None, *, repeats: bool = True, direct: bool = False
) -> requests.Session:
    """Return a session that sends this key, or the name without a password in an address, and
    repeats what is safe; `direct`: by no proxy.

    POST is safe too: lines have identities, and a plan changes nothing.
    """
    import requests
    from requests.auth import HTTPBasicAuth
    from requests.utils import get_auth_from_url
    from urllib3.exceptions import HTTPError, MaxRetryError
    from urllib3.util.retry import Retry

    class Patient(Retry):
        """Asks no server again before the time that it names in Retry-After."""

        def increment(
            self, method: Any = None, url: Any = None, response: Any = None, *rest: Any, **more: Any
        ) -> Patient:
            wait_s: float | None = None
            with suppress(HTTPError):  # of a header that is malformed
                wait_s = self.get_retry_after(response) if response is not None else None
            if wait_s is not None and wait_s > REPEATED_S:
                raise MaxRetryError(more["_pool"], url)
            return super().increment(method, url, response, *rest, **more)

    retry = Patient(
        total=2 if repeats else 0,
        connect=1 if repeats else 0,
        read=False,
        respect_retry_after_header=False,
        backoff_factor=0.3,
        status_forcelist=(429, 502, 503, 504),
        allowed_methods=None,
        raise_on_status=False,
    )
    session = requests.Session()
    reach_directly(session, retry, always=direct)

    def show_key(request: requests.PreparedRequest) -> requests.PreparedRequest:
        url = request.url or ""
        key = api_key or unquote(urlsplit(url).username or "")
        if any(own := get_auth_from_url(url)):
            HTTPBasicAuth(*own)(request)
        elif key and may_go_to(key, url):
            request.headers["Authorization"] = f"Bearer {key}"
        return request

    session.auth = show_key  # without one, requests sends what ~/.netrc has in place of the key
    return session


def reach_directly(session: requests.Session, retry: Any = 0, *, always: bool = False) -> None:
    """Have a session ask this machine, or with `always` any, without the environment's proxy."""
    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        def send(
            self, request: requests.PreparedRequest, *args: Any, **options: Any
        ) -> requests.Response:
            if always or is_loopback(request.url or ""):
                options["proxies"] = {}
            if authorities := os.environ.get(AUTHORITIES):  # or REQUESTS_CA_BUNDLE would win
                options["verify"] = authorities
            return super().send(request, *args, **options)

    # As Python's own connections, mail and the store of reports do; requests alone does not.
    session.verify = os.environ.get(AUTHORITIES) or True
    for scheme in ("http://", "https://"):
        session.mount(scheme, Adapter(max_retries=retry))


def exchange(
    session: requests.Session,
    method: str,
    url: str,
    limit_s: float,
    *,
    silence_s: float | None = None,
    most_b: int = LARGEST_B,
    **content: Any,
) -> Answer:
    """Return the whole answer to a request within `limit_s` [s]; `content` is as requests takes it.

    A server that sends nothing for `silence_s`, else TIMEOUT_S [s], is given up before. `most_b`
    is the most that is read of an answer [B]. Raises Unanswered. A redirect is an answer like any
    other.
    """
    import requests
    from urllib3.exceptions import ProtocolError, ReadTimeoutError

    connect_s, read_s = TIMEOUT_S[0], TIMEOUT_S[1] if silence_s is None else silence_s
    timeout = min(connect_s, limit_s), min(read_s, limit_s)
    options = {"timeout": timeout, "allow_redirects": False, "stream": True, **content}

    def ask() -> Answer:
        with session.request(method, url, **options) as response:
            body = bytearray()
            for part in response.iter_content(65536):
                body += part
                if len(body) > most_b:
                    raise Unanswered(f"its answer is larger than {most_b / 2**20:.3g} MiB")
            return Answer(
                response.status_code, response.reason or "", response.headers, bytes(body)
            )

    def ask_again_if_closed() -> Answer:
        try:
            return ask()
        except requests.ConnectionError as error:
            if not (error.args and isinstance(error.args[0], ProtocolError)):
                raise
            # The server has closed the kept connection, as gunicorn does after a refusal for which
            # it had not read the body.
            return ask()

    try:
        return within(limit_s, ask_again_if_closed)
    except Unanswered:
        raise
    except TimeoutError as error:
        raise Unanswered(str(error), late=True) from None
    except requests.exceptions.ChunkedEncodingError:
        raise Unanswered("its answer was cut off") from None
    except (OSError, ValueError) as error:  # of requests, or of text that is not an address
        silent = bool(error.args) and isinstance(error.args[0], ReadTimeoutError)
        if silent or isinstance(error, requests.Timeout):
            raise Unanswered(f"does not answer within {timeout[1]:g} s", late=True) from None
        words, refused = unreached(error)
        raise Unanswered(words, refused=refused) from None


def unreached(error: BaseException) -> tuple[str, bool]:
    """Return what stopped a request, and whether nobody listens there: the innermost error, in the
    system's words where it has any.

    Others may repeat the address, and a password in it. A proxy that is not reached is named, since
    the address is another one's.
    """
    by_proxy = False
    while cause := error.__cause__ or error.__context__:
        by_proxy |= type(error).__name__ == "ProxyError"
        error = cause
    import ssl  # with OpenSSL 4 MB, which a meter without a server does without

    kind = type(error).__name__
    words = getattr(error, "strerror", None) or UNREACHED.get(kind, kind)
    if isinstance(error, ssl.SSLCertVerificationError):
        words = error.verify_message.rstrip(".")
        if error.verify_code in UNKNOWN_ISSUER:
            words += f"; an authority of your own goes into {AUTHORITIES}"
    if by_proxy:
        words = f"{words}, by the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY"
    return str(words), isinstance(error, ConnectionRefusedError)


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
