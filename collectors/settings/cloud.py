"""The cloud region of this machine, from the metadata service that AWS, GCP and Azure offer it.

Asked only where the user allows it (`cloud_metadata`), by the meter and never by the training
process. The three are asked at once; none is waited for longer than `WAIT_S`. Nothing is sent.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue

from gramwatt.collectors.settings.background import in_background
from gramwatt.collectors.settings.http import Answer, exchange, new_session

LINK_LOCAL = "169.254.169.254"
"""Where all three answer; no other machine can."""
WAIT_S = 0.2
LONGEST_B = 4096
_REGION = re.compile(r"[a-z][a-z0-9-]{1,40}")


def cloud_region(environ: Mapping[str, str], wait_s: float = WAIT_S) -> str | None:
    """Return the region, such as aws:eu-west-1; None where no cloud answers in `wait_s` [s].

    Other addresses are taken from the variables that the providers' own tools read.
    """
    new_session().close()  # what it imports is not part of the wait
    ends = time.monotonic() + wait_s
    regions: SimpleQueue[str | None] = SimpleQueue()
    for name, ask in _PROVIDERS.items():
        in_background(lambda name=name, ask=ask: regions.put(_region(name, ask, environ, ends)))  # type: ignore[misc]
    for _ in _PROVIDERS:
        try:
            region = regions.get(timeout=max(0.0, ends - time.monotonic()))
        except Empty:
            return None
        if region:
            return region
    return None


def _region(
    name: str,
    ask: Callable[[Mapping[str, str], float], str],
    environ: Mapping[str, str],
    ends: float,
) -> str | None:
    try:
        region = ask(environ, ends).strip().lower()
    except (OSError, ValueError):
        return None
    return f"{name}:{region}" if _REGION.fullmatch(region) else None


def _aws(environ: Mapping[str, str], ends: float) -> str:
    """Return the region by version 2 of the instance metadata service: a token first."""
    host = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", LINK_LOCAL)
    lasts = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = _text(_ask(host, "PUT", "/latest/api/token", lasts, ends))
    path = "/latest/meta-data/placement/region"
    return _text(_ask(host, "GET", path, {"X-aws-ec2-metadata-token": token}, ends))


def _gcp(environ: Mapping[str, str], ends: float) -> str:
    """Return the zone without its last part: projects/7/zones/europe-west1-b."""
    host = environ.get("GCE_METADATA_HOST", LINK_LOCAL)
    flavour = {"Metadata-Flavor": "Google"}
    answer = _ask(host, "GET", "/computeMetadata/v1/instance/zone", flavour, ends)
    if answer.headers.get("Metadata-Flavor") != "Google":
        raise ValueError("not Google's metadata service")
    return _text(answer).rpartition("/")[2].rpartition("-")[0]


def _azure(environ: Mapping[str, str], ends: float) -> str:
    host = environ.get("AZURE_IMDS_ENDPOINT", LINK_LOCAL)
    path = "/metadata/instance/compute/location?api-version=2021-02-01&format=text"
    return _text(_ask(host, "GET", path, {"Metadata": "true"}, ends))


_PROVIDERS = {"aws": _aws, "gcp": _gcp, "azure": _azure}


def _ask(host: str, method: str, path: str, headers: Mapping[str, str], ends: float) -> Answer:
    left_s = ends - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    url = f"http://{host.removeprefix('http://').rstrip('/')}{path}"
    with new_session(repeats=False, direct=True) as session:
        return exchange(session, method, url, left_s, most_b=LONGEST_B, headers=dict(headers))


def _text(answer: Answer) -> str:
    if answer.status != 200:
        raise ValueError(f"status {answer.status}")
    return answer.body.decode("ascii")
