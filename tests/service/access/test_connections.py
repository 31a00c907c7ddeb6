"""Many slow clients, and what a proxy may say of a client."""

import socket
import threading
import time

import pytest

from gramwatt.service.app import create_app
from gramwatt.service.config import ConfigError, from_environment
from gramwatt.service.container import Service
from tests.service.keyed import NO_KEY
from tests.service.processes import get, serving

HEAD = b"POST /v1/jobs/job-1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n"
DRIPS = 150


def test_clients_that_drip_do_not_keep_others_waiting(tmp_path):
    """Their requests never end; what they send is not waited for by a thread."""
    with serving(tmp_path) as (_process, address):
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        sockets = [socket.create_connection(place) for _ in range(DRIPS)]
        for number, one in enumerate(sockets):
            one.sendall(HEAD + (b"\r\n" if number % 2 else b"X-Slow: "))
        stopped = threading.Event()

        def drip():
            while not stopped.wait(0.3):
                for one in sockets:
                    one.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            begun = time.monotonic()
            assert get(f"{address}/healthz") == {"status": "ok"}
            assert time.monotonic() - begun < 30  # threads that wait for them are free after 75 s
        finally:
            stopped.set()
            thread.join()
            for one in sockets:
                one.close()


@pytest.fixture
def through_proxy(light, clock):
    """Asks as a proxy at an address does for a client; gives the address that was logged.

    An hour after the last time, as one refusal without a key is logged an hour.
    """
    settings = from_environment({"GRAMWATT_TRUSTED_PROXIES": "10.0.0.7 fd00::/8"})
    config = light.config.__class__(
        database_url=light.config.database_url,
        home=light.config.home,
        clock=light.config.clock,
        trusted_proxies=settings.trusted_proxies,
        hosts=("grid.example",),
    )
    client = create_app(service=Service(config, light.store)).test_client()

    def ask(proxy, **headers):
        clock.turn(hours=1)
        shown = {name.replace("_", "-"): text for name, text in headers.items()}
        answer = client.get("/v1/jobs", headers=NO_KEY | shown, environ_base={"REMOTE_ADDR": proxy})
        return answer, client.get("/v1/audit?limit=1").json["entries"][0]["address"]

    return ask


def test_a_proxy_is_believed_when_it_is_configured(through_proxy):
    said = {"X_Forwarded_For": "198.51.100.1, 203.0.113.9", "X_Forwarded_Host": "grid.example"}
    for proxy in ("10.0.0.7", "fd00::7"):
        answer, address = through_proxy(proxy, **said)
        # The last address is the one that the proxy itself saw; the client may have written others.
        assert (answer.status_code, address) == (401, "203.0.113.9")
    answer, address = through_proxy("10.0.0.8", **said)
    assert (answer.status_code, address) == (401, "10.0.0.8")
    assert through_proxy("10.0.0.8", X_Forwarded_Host="evil.example")[0].json["code"] == (
        "unauthorised"
    )
    evil = through_proxy("10.0.0.7", X_Forwarded_Host="evil.example")[0]
    assert evil.json["code"] == "untrusted-host"


def test_a_proxy_is_an_address_or_a_network():
    with pytest.raises(ConfigError, match="GRAMWATT_TRUSTED_PROXIES='nginx'"):
        from_environment({"GRAMWATT_TRUSTED_PROXIES": "nginx"})
