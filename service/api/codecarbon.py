"""The two routes that an unmodified codecarbon client posts to; it needs 201 within 2 s."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from gramwatt.service.api.access import Access
from gramwatt.service.api.routing import Routes, Strict
from gramwatt.service.api.support import ABSENT, AnyText, Text, service
from gramwatt.service.codecarbon.runs import add_emission, add_run, job_id_of

routes = Routes("codecarbon")
BASE = "/v1/compat/codecarbon"
LOST = "unknown-run", *ABSENT

Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class ClientBody(BaseModel):
    """Base of the client's messages: fields of newer versions are let through."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class ZonePath(Strict):
    """The grid zone in the address, since the client does not send where it runs."""

    zone: str = Field(min_length=1, max_length=64, description="Electricity Maps key or ISO 3166.")


class RunBody(ClientBody):
    """A run as codecarbon's client announces it; the amount of memory is in GiB."""

    timestamp: Text
    experiment_id: Text
    codecarbon_version: AnyText | None = None
    cpu_count: Amount | None = None
    cpu_model: AnyText | None = None
    gpu_count: Amount | None = None
    gpu_model: AnyText | None = None
    region: AnyText | None = None
    provider: AnyText | None = None
    ram_total_size: Amount | None = None
    tracking_mode: AnyText | None = None


class EmissionBody(ClientBody):
    """What a run used since its last message: energies in kWh, emissions in kg, whole seconds."""

    timestamp: Text
    run_id: Text
    duration: Amount
    emissions_sum: Amount
    emissions_rate: Amount
    cpu_energy: Amount
    gpu_energy: Amount
    ram_energy: Amount


class CodecarbonRunAnswer(TypedDict):
    """The id that the client sends with every message, and the job that the run becomes."""

    id: str
    job_id: str


class EmissionAnswer(TypedDict):
    """The job that the message's energy went to."""

    job_id: str


@routes.post(f"{BASE}/runs", access=Access.INGEST, status=201)
def add_codecarbon_run(body: RunBody) -> CodecarbonRunAnswer:
    """Announce a run of codecarbon's client.

    The run becomes a job of the project `experiment_id` with its first message.
    """
    return _run(body, None)


@routes.post(f"{BASE}/zones/<zone>/runs", access=Access.INGEST, status=201)
def add_codecarbon_run_in_zone(path: ZonePath, body: RunBody) -> CodecarbonRunAnswer:
    """Announce a run of codecarbon's client in a grid zone, which the client itself never sends."""
    return _run(body, path.zone)


@routes.post(f"{BASE}/emissions", *LOST, access=Access.INGEST, status=201)
def add_codecarbon_emission(body: EmissionBody) -> EmissionAnswer:
    """Add what a run used since its last message; sending one again changes nothing.

    Energies are taken over. Emissions are not: they are computed as for every job.
    """
    return {"job_id": add_emission(service(), body.model_dump())}


@routes.post(f"{BASE}/zones/<zone>/emissions", *LOST, access=Access.INGEST, status=201)
def add_codecarbon_emission_in_zone(path: ZonePath, body: EmissionBody) -> EmissionAnswer:
    """Add what a run used since its last message; the zone is the one that it was announced in."""
    return {"job_id": add_emission(service(), body.model_dump())}


def _run(body: RunBody, zone: str | None) -> CodecarbonRunAnswer:
    run_id = add_run(service(), body.model_dump(), zone)
    return {"id": run_id, "job_id": job_id_of(run_id)}
