"""How `requests` reaches an address: one of this machine never by a proxy of the environment.

What is sent to a loopback address is for this machine alone, such as the key of its server.
"""

from __future__ import annotations

from typing import Any

from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

from gramwatt.collectors.common.config import is_loopback


class _Adapter(HTTPAdapter):
    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        if is_loopback(request.url or ""):
            options["proxies"] = {}
        return super().send(request, *args, **options)


def direct_session(retry: Any = 0) -> Session:
    """Return a session of `requests` that asks loopback addresses directly; `retry`: of urllib3."""
    session = Session()
    reach_directly(session, retry)
    return session


def reach_directly(session: Session, retry: Any = 0) -> None:
    """Have a session ask loopback addresses directly, whatever proxy the environment names."""
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(max_retries=retry))
