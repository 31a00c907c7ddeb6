"""The region of a machine in a cloud, asked of servers in the documented shapes."""

import threading
import time
from contextlib import ExitStack

import pytest

from gramwatt.collectors.settings.cloud import cloud_region
from tests.answering import answering, send

NOWHERE = "127.0.0.1:9"  # nothing listens on the port of `discard`
VARIABLES = {
    "aws": "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "gcp": "GCE_METADATA_HOST",
    "azure": "AZURE_IMDS_ENDPOINT",
}


@pytest.fixture
def metadata():
    """Starts a metadata service; `answer(method, path, headers)` gives status, headers and body."""
    with ExitStack() as stack:

        def start(answer, asked=None):
            def act(handler):
                if asked is not None:
                    asked.append(handler.path)
                status, headers, body = answer(handler.command, handler.path, handler.headers)
                send(handler, body, status, **headers)

            return stack.enter_context(answering(act)).removeprefix("http://")

        yield start


def environ(**given):
    return {variable: given.get(name, NOWHERE) for name, variable in VARIABLES.items()}


def aws(method, path, headers):
    if method == "PUT" and path == "/latest/api/token":
        assert headers["X-aws-ec2-metadata-token-ttl-seconds"]
        return 200, {}, b"t-1"
    if path == "/latest/meta-data/placement/region":
        allowed = headers.get("X-aws-ec2-metadata-token") == "t-1"
        return (200, {}, b"us-west-2") if allowed else (401, {}, b"")
    return 404, {}, b""


def gcp(method, path, headers):
    found = path == "/computeMetadata/v1/instance/zone" and headers["Metadata-Flavor"] == "Google"
    body = b"projects/7/zones/europe-west1-b"
    return (200, {"Metadata-Flavor": "Google"}, body) if found else (403, {}, b"")


def azure(method, path, headers):
    found = path.startswith("/metadata/instance/compute/location?") and headers["Metadata"]
    return (200, {}, b"westeurope") if found else (400, {}, b"")


ANSWERS = {
    "aws": (aws, "aws:us-west-2"),
    "gcp": (gcp, "gcp:europe-west1"),
    "azure": (azure, "azure:westeurope"),
}


@pytest.mark.parametrize("cloud", ANSWERS)
def test_each_cloud_says_its_region(metadata, cloud):
    answer, region = ANSWERS[cloud]
    # Long enough for any machine; how long it waits at most is tested below.
    assert cloud_region(environ(**{cloud: metadata(answer)}), 60.0) == region


def test_a_service_that_does_not_answer_is_not_waited_for(metadata):
    release = threading.Event()

    def slow(method, path, headers):
        release.wait(60)
        return 200, {}, b""

    address = metadata(slow)
    began = time.monotonic()
    assert cloud_region(environ(aws=address, azure=address)) is None
    waited = time.monotonic() - began
    release.set()
    assert waited < 30  # far below the 60 s of the service


@pytest.mark.parametrize(
    ("given", "region", "asked"),
    [
        ({"GRAMWATT_CLOUD_METADATA": "1"}, "aws:us-west-2", True),
        ({}, None, False),
        ({"GRAMWATT_CLOUD_METADATA": "1", "GRAMWATT_ZONE": "FR"}, None, False),
        (
            {"GRAMWATT_CLOUD_METADATA": "1", "GRAMWATT_REGION": "gcp:us-east1"},
            "gcp:us-east1",
            False,
        ),
    ],
)
def test_the_meter_asks_only_where_it_may_and_no_place_is_given(
    metadata, monkeypatch, given, region, asked
):
    from gramwatt.collectors.meter.main import _config
    from gramwatt.collectors.settings import cloud

    paths = []
    for name, value in (environ(aws=metadata(aws, paths)) | given).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cloud.cloud_region, "__defaults__", (5.0,))
    config = _config({})
    assert config.region == region
    assert bool(paths) is asked
    assert ("region_source" in config.tags) is asked
