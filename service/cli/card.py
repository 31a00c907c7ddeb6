"""`gramwatt card`: the emissions of a job in a Hugging Face model card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gramwatt.collectors.cli.options import show
from gramwatt.service.cli.common import current_service, job_document, stop

if TYPE_CHECKING:
    from gramwatt.sci.figures.document import JobDoc

KEY = "co2_eq_emissions"
TRAINING = {"training": "pre-training", "fine-tuning": "fine-tuning"}
"""Our kinds of jobs in the words of the hub's model cards."""
JobOption = Annotated[str, typer.Option("--job", metavar="ID", help="The job; last: the newest.")]


def write(
    card: Annotated[Path, typer.Argument(help="The card, such as out/README.md.")] = Path(
        "README.md"
    ),
    job: JobOption = "last",
) -> None:
    """Write a job's emissions, in grams, into the metadata of a model card in a file."""
    hub, found = _hub(), _emissions(job)
    try:
        content = hub.ModelCard.load(card, ignore_metadata_errors=False)
    except (OSError, ValueError) as error:
        stop(2, f"{card} is no model card: {error}")
    content.data[KEY] = found
    content.save(card)
    show(f"{card}: {found['emissions']:g} gCO2e ({found['emissions_range_g']})")


def push(
    repo: Annotated[str, typer.Argument(metavar="ORG/MODEL", help="The model on the hub.")],
    job: JobOption = "last",
) -> None:
    """Write a job's emissions, in grams, into a model's card on the hub, by your login there.

    Afterwards, not in training: the Trainer writes its card anew when it pushes.
    """
    hub, found = _hub(), _emissions(job)
    try:
        address = hub.metadata_update(repo, {KEY: found}, overwrite=True)
    except Exception as error:  # whatever the hub or the network answers
        stop(1, f"the hub did not take it: {error}")
    print(address)


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        stop(2, "this needs huggingface_hub: pip install huggingface_hub")
    return huggingface_hub


def _emissions(job: str) -> dict[str, object]:
    """Return what the hub's key holds: grams, their range as text, and where they are from.

    The hub's filter takes the number `emissions` [gCO2e] and refuses a mapping without it.
    """
    with current_service() as service:
        document: JobDoc = job_document(service, job)
    total = document.total_g
    if total is None:
        stop(1, f"the emissions of {document.job_id} are not known: gramwatt job {job}")
    hardware = sorted({device.name for device in document.devices})
    found: dict[str, object] = {
        "emissions": round(total.value, 6),
        "emissions_range_g": f"{total.low:.6g} to {total.high:.6g}",
        "source": f"gramwatt, {document.conformance}, operational and embodied carbon",
        "hardware_used": ", ".join(hardware),
    }
    if training := TRAINING.get(document.kind or ""):
        found["training_type"] = training
    if zone := document.zone:
        found["geographical_location"] = zone
    return found
