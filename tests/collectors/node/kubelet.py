"""A kubelet's pod-resources socket of our own, with the messages that its proto describes."""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
from grpc_tools import protoc

from tests.packages import ROOT

PROTO = ROOT / "tests" / "data" / "pod_resources.proto"


@cache
def messages() -> Any:
    """The module that protoc makes of the proto."""
    folder = tempfile.mkdtemp()
    line = ["protoc", f"-I{PROTO.parent}", f"--python_out={folder}", PROTO.name]
    assert protoc.main(line) == 0
    sys.path.insert(0, folder)
    try:
        return import_module("pod_resources_pb2")
    finally:
        sys.path.remove(folder)


class Kubelet:
    """Answers `List` with `pods`: namespace, name, and device ids of its containers."""

    def __init__(self, socket: Path) -> None:
        self.pods: list[tuple[str, str, list[list[str]]]] = []
        self.failing: grpc.StatusCode | None = None
        self.asked = 0
        self._server = grpc.server(ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(
            self._list,
            request_deserializer=messages().ListPodResourcesRequest.FromString,
            response_serializer=lambda answer: answer.SerializeToString(),
        )
        service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler})
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def _list(self, request: Any, context: Any) -> Any:
        self.asked += 1
        if self.failing:
            context.abort(self.failing, "not now")
        return answer(self.pods)


def answer(pods: list[tuple[str, str, list[list[str]]]]) -> Any:
    """The message for these pods, with what else a kubelet writes beside the devices."""
    proto = messages()
    found = proto.ListPodResourcesResponse()
    for namespace, name, containers in pods:
        pod = found.pod_resources.add(name=name, namespace=namespace)
        for number, device_ids in enumerate(containers):
            one = pod.containers.add(name=f"c{number}", cpu_ids=[1, 2, 300])
            one.memory.add(memory_type="memory", size=2**40)
            one.dynamic_resources.add(class_name="gpu", claim_name="a")
            if device_ids:
                devices = one.devices.add(resource_name="nvidia.com/gpu", device_ids=device_ids)
                devices.topology.nodes.add(ID=1)
    return found
