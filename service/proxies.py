"""What a reverse proxy says of the caller: believed from configured proxies only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import TYPE_CHECKING

from werkzeug.middleware.proxy_fix import ProxyFix

from gramwatt.service.addresses import plain_ip

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

FOR = "HTTP_X_FORWARDED_FOR"
FORWARDED = (
    "HTTP_FORWARDED",
    FOR,
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PORT",
    "HTTP_X_FORWARDED_PREFIX",
    "HTTP_X_FORWARDED_PROTO",
)


class TrustedProxies:
    """Puts the client's address, scheme and host in place of a trusted proxy's own.

    From anybody else the headers are dropped, so that nothing behind can believe them.
    """

    def __init__(self, app: WSGIApplication, networks: Sequence[IPv4Network | IPv6Network]) -> None:
        self._app, self._networks = app, networks
        self._fixed = ProxyFix(app, x_for=1, x_proto=1, x_host=1)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        peer = environ.get("REMOTE_ADDR", "")
        environ["REMOTE_ADDR"] = plain_ip(peer) or peer
        if self._is_trusted(environ["REMOTE_ADDR"]):
            # Some gateways write the client's port too, and each connection has another.
            client = plain_ip(environ.pop(FOR, "").rpartition(",")[2].strip())
            if client is not None:
                environ[FOR] = client
            return self._fixed(environ, start_response)
        for name in FORWARDED:
            environ.pop(name, None)
        return self._app(environ, start_response)

    def _is_trusted(self, address: str) -> bool:
        try:
            peer = ip_address(address)
        except ValueError:
            return False
        return any(peer in network for network in self._networks)
