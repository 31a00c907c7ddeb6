"""What happens to requests on their way: loss, delay, repetition, partitions, answers cut off.

It is the adapter of the uploader's own session, with the same rules for trying again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import requests
from requests.adapters import BaseAdapter
from urllib3.util.retry import Retry

from tests.simulation.server import Server
from tests.simulation.world import Machine, World
from tests.simulation.wsgi import Answer


class Network:
    """The way from every machine to the server."""

    def __init__(self, world: World, server: Server) -> None:
        self.world = world
        self.server = server
        self.loss = self.delay = self.repeat = self.cut = 0.0
        """Shares of requests that are lost, that arrive after the sender gave up, that arrive
        twice, and whose answers are lost."""
        self.on_lost: Callable[[Machine], None] = lambda machine: None
        """Called when a machine does not get an answer."""

    def session(self, original: requests.Session) -> requests.Session:
        """The uploader's session, over this network."""
        policy = original.get_adapter("http://").max_retries  # type: ignore[attr-defined]
        for scheme in ("http://", "https://"):
            original.mount(scheme, Wire(self, policy))
        original.trust_env = False
        return original

    def exchange(self, request: requests.PreparedRequest, policy: Retry) -> Answer:
        """The answer to a request, tried again as the policy says; raises as requests does."""
        machine = self.world.machine
        assert machine is not None
        left, refused = policy.total or 0, policy.connect or 0
        while True:
            try:
                answer = self._try(machine, request)
            except requests.ConnectTimeout:
                if not refused:
                    raise
                refused, left = refused - 1, left - 1
                continue
            if not (left and answer.status in policy.status_forcelist):
                return answer
            left -= 1
            self.world.pass_s(0.3)

    def _try(self, machine: Machine, request: requests.PreparedRequest) -> Answer:
        world = self.world
        world.pass_s(world.draw.uniform(0.001, 0.4))
        if machine.partitioned or world.chance(self.loss):
            world.fault("loss", str(request.path_url))
            world.pass_s(3.05)
            raise requests.ConnectTimeout
        if world.chance(self.delay):
            world.fault("delay")
            world.after(world.draw.uniform(11, 200), lambda: self._deliver(request))
            world.pass_s(10)
            raise requests.ReadTimeout
        if world.chance(self.repeat):
            world.fault("repeat")
            world.after(world.draw.uniform(0, 300), lambda: self._deliver(request))
        answer = self._deliver(request)
        if answer is None:
            raise requests.ConnectionError
        world.pass_s(world.draw.uniform(0.001, 0.2))
        if machine.partitioned or world.chance(self.cut):
            world.fault("answer lost")
            self.on_lost(machine)
            world.pass_s(10)
            raise requests.ReadTimeout
        return answer

    def _deliver(self, request: requests.PreparedRequest) -> Answer | None:
        body = request.body or b""
        return self.server.answer(
            str(request.method),
            request.path_url,
            body if isinstance(body, bytes) else body.encode(),
            dict(request.headers),
        )


class Wire(BaseAdapter):
    """The adapter that the session sends through."""

    def __init__(self, network: Network, policy: Retry) -> None:
        super().__init__()
        self._network, self._policy = network, policy

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
        """Exchange a request for a response."""
        answer = self._network.exchange(request, self._policy)
        response = requests.Response()
        response.status_code, response._content = answer.status, answer.body
        response._content_consumed = True  # type: ignore[attr-defined]
        response.headers.update(answer.headers)
        response.request, response.url = request, request.url or ""
        return response

    def close(self) -> None:
        """Nothing is held."""
