"""The cloud region of this machine, from the metadata service that AWS, GCP and Azure offer it.

Asked only where the user allows it (`cloud_metadata`), by the meter and never by the training
process. The three are asked at once; none is waited for longer than `WAIT_S`. Nothing is sent.
"""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue

LINK_LOCAL = "169.254.169.254"
"""Where all three answer; no other machine can."""
WAIT_S = 0.2
LONGEST_B = 4096
_REGION = re.compile(r"[a-z][a-z0-9-]{1,40}")


def cloud_region(environ: Mapping[str, str], wait_s: float = WAIT_S) -> str | None:
    """Return the region, such as aws:eu-west-1; None where no cloud answers in time.

    Other addresses are taken from the variables that the providers' own tools read.
    """
    ends = time.monotonic() + wait_s
    answers: SimpleQueue[str | None] = SimpleQueue()
    for name, ask in _PROVIDERS.items():
        work = threading.Thread(
            target=_answer, args=(answers, name, ask, environ, ends), daemon=True
        )
        work.start()
    for _ in _PROVIDERS:
        try:
            found = answers.get(timeout=max(0.0, ends - time.monotonic()))
        except Empty:
            return None
        if found:
            return found
    return None


def _answer(
    answers: SimpleQueue[str | None],
    name: str,
    ask: Callable[[Mapping[str, str], float], str],
    environ: Mapping[str, str],
    ends: float,
) -> None:
    try:
        region = ask(environ, ends).strip().lower()
    except (OSError, http.client.HTTPException, ValueError):
        region = ""
    answers.put(f"{name}:{region}" if _REGION.fullmatch(region) else None)


def _aws(environ: Mapping[str, str], ends: float) -> str:
    """Return the region by version 2 of the instance metadata service: a token first."""
    host = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", LINK_LOCAL)
    lasts = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token, _ = _ask(host, "PUT", "/latest/api/token", lasts, ends)
    shown = {"X-aws-ec2-metadata-token": token}
    return _ask(host, "GET", "/latest/meta-data/placement/region", shown, ends)[0]


def _gcp(environ: Mapping[str, str], ends: float) -> str:
    """Return the zone without its last part: projects/7/zones/europe-west1-b."""
    host = environ.get("GCE_METADATA_HOST", LINK_LOCAL)
    flavour = {"Metadata-Flavor": "Google"}
    zone, headers = _ask(host, "GET", "/computeMetadata/v1/instance/zone", flavour, ends)
    if headers.get("Metadata-Flavor") != "Google":
        raise ValueError("not Google's metadata service")
    return zone.rpartition("/")[2].rpartition("-")[0]


def _azure(environ: Mapping[str, str], ends: float) -> str:
    host = environ.get("AZURE_IMDS_ENDPOINT", LINK_LOCAL)
    path = "/metadata/instance/compute/location?api-version=2021-02-01&format=text"
    return _ask(host, "GET", path, {"Metadata": "true"}, ends)[0]


_PROVIDERS = {"aws": _aws, "gcp": _gcp, "azure": _azure}


def _ask(
    host: str, method: str, path: str, headers: Mapping[str, str], ends: float
) -> tuple[str, Mapping[str, str]]:
    """Return body and headers of a plain answer; no proxy and no redirect is followed."""
    left_s = ends - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    place = host.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(place, timeout=left_s)
    try:
        connection.request(method, path, headers=dict(headers))
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        return answer.read(LONGEST_B).decode("ascii"), dict(answer.getheaders())
    finally:
        connection.close()
