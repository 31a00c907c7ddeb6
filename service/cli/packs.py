"""The commands `gramwatt export pack` and `gramwatt verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gramwatt.service.cli.common import (
    AsJson,
    JobId,
    current_service,
    job_errors,
    job_id,
    print_json,
    stop,
    write_file,
)

PackFile = Annotated[
    Path | None, typer.Option("-o", "--output", help="File to write (default: ID.zip).")
]


def export_pack(text: JobId, output: PackFile = None) -> None:
    """Everything behind a score in one file that others can verify: inputs, forms, report."""
    from gramwatt.service.usecases.errors import BusyError, StillRunsError
    from gramwatt.service.usecases.packs.collect import job_pack

    with current_service() as service, job_errors(text):
        name = job_id(service, text)
        try:
            content = job_pack(service, name)
        except (StillRunsError, BusyError) as error:
            stop(1, str(error))
    write_file(output or Path(f"{name}.zip"), content)


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="A pack: gramwatt export pack.")],
    as_json: AsJson = False,
) -> None:
    """Compute every figure of a pack again, without store or network: 0 equal, 1 not."""
    from gramwatt.service.usecases.packs.archive import PACKED_MOST_B, PackError
    from gramwatt.service.usecases.packs.verify import verify as verified

    try:
        with file.open("rb") as stream:
            content = stream.read(PACKED_MOST_B + 1)
    except OSError as error:
        stop(1, f"cannot read {file}: {error.strerror or error}")
    try:
        found = verified(content)
    except PackError as error:
        if as_json:
            print_json({"equal": False, "wrong": [error.message], "part": error.part})
        stop(1, f"{file} does not verify: {error.message}")
    if as_json:
        document = {"equal": found.equal, "pack": found.about, "held": found.held}
        print_json({**document, "wrong": found.wrong, "not_checked": found.not_checked})
    else:
        for text in found.held:
            print(f"equal        {text}")
        for text in found.not_checked:
            print(f"not checked  {text}")
    for text in found.wrong:
        typer.echo(f"gramwatt: {text}", err=True)
    if not found.equal:
        stop(1, f"{file} does not verify: {len(found.wrong)} parts differ")
