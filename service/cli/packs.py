"""The commands `gramwatt export pack`, `gramwatt verify` and `gramwatt key signing`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gramwatt.collectors.common.files import whole_file, why
from gramwatt.collectors.common.progress import each
from gramwatt.service.cli.common import (
    AsJson,
    Project,
    author,
    current_service,
    job_errors,
    job_id,
    print_json,
    service_config,
    stop,
)

if TYPE_CHECKING:
    from gramwatt.service.packs.verify import Verdict

PackFile = Annotated[
    Path | None, typer.Option("-o", "--output", help="File to write (default: ID.zip).")
]


def export_pack(
    text: Annotated[
        str, typer.Argument(metavar="ID", help="A job, a model, or a month such as 2026-05.")
    ],
    project: Project = None,
    revision: Annotated[
        int | None,
        typer.Option(min=1, help="Of a month: the kept report of this number, and its scores."),
    ] = None,
    output: PackFile = None,
) -> None:
    """Everything behind a score in one file that others can verify: inputs, forms, report."""
    from gramwatt.reports.printable import file_name
    from gramwatt.service.access import audit
    from gramwatt.service.container import Caller
    from gramwatt.service.months.pack_sums import JOB, MONTH
    from gramwatt.service.packs.collect import kind_of, make_pack
    from gramwatt.service.packs.signing import NEEDS, KeyFileError

    with current_service() as service:
        kind = kind_of(service, text)
        if revision is not None and kind != MONTH:
            stop(2, "--revision is that of a month's report: gramwatt export pack YYYY-MM")
        name = job_id(service, text) if kind == JOB else text
        number = f"r{revision}" if revision is not None else None
        parts = [file_name(text) for text in (name, project, number) if text]
        path = output or Path(f"{'-'.join(parts)}.zip")
        try:
            with job_errors(text), whole_file(path) as stream:
                make_pack(
                    service,
                    stream,
                    kind,
                    name,
                    project,
                    revision=revision,
                    folder=path.parent,
                    each=_packed,
                )
        except KeyFileError as error:
            stop(1, str(error))
        except ImportError:
            stop(1, NEEDS)
        except OSError as error:
            stop(1, f"cannot write {path}: {why(error)}")
        of_project = f" of {project}" if project else ""
        audit.log(service.for_caller(Caller(author())), "exported", f"pack of {name}{of_project}")
    print(path)


def _packed(job_ids: Sequence[str]) -> Iterable[str]:
    return each(job_ids, "packing")


def key_signing() -> None:
    """Make the key pair that signs packs, unless there is one; prints the public key's file."""
    from gramwatt.service.packs.signing import NEEDS, KeyFileError, make_key

    home = service_config().home
    try:
        print(make_key(home))
    except ImportError:
        stop(1, NEEDS)
    except KeyFileError as error:
        stop(1, str(error))
    except OSError as error:
        stop(1, f"cannot write a key to {home}: {why(error)}")


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="A pack: gramwatt export pack.")],
    key: Annotated[
        Path | None, typer.Option(help="The signer's public key: the pack must be signed with it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute every figure of a pack again, without store or network.

    0: proven, 1: altered, 3: proven in part, where something could not be compared.
    """
    from gramwatt.service.packs.archive import PackError
    from gramwatt.service.packs.signing import NEEDS, KeyFileError, read_public_key
    from gramwatt.service.packs.verify import verify as verified

    try:
        trusted = read_public_key(key) if key is not None else None
        with file.open("rb") as stream:
            found = verified(stream, trusted, each=lambda ids: each(ids, "verifying"))
    except OSError as error:
        stop(1, f"cannot read {file}: {why(error)}")
    except KeyFileError as error:
        stop(2, str(error))
    except ImportError:
        stop(1, NEEDS)
    except PackError as error:
        if as_json:
            print_json({"outcome": "altered", "wrong": [error.message], "part": error.part})
        stop(1, f"{file} does not verify: {error.message}")
    if as_json:
        document = {"outcome": found.outcome, "pack": found.about, "wrong": found.wrong}
        rest = {"not_checked": found.not_checked, "held": found.held, "believed": found.believed}
        print_json(document | rest)
    else:
        _show(found)
    if found.outcome == "altered":
        number = len(found.wrong)
        text = f"{number} {'thing' if number == 1 else 'things'} wrong"
        for other in found.other_versions:
            text += f"; {other}, so that figures may differ: verify with the release that made it"
        stop(1, f"{file} does not verify: {text}")
    if found.outcome == "proven-in-part":
        raise typer.Exit(3)


def _show(found: Verdict) -> None:
    """Print what was found, what was not compared first; what is wrong on stderr."""
    if found.outcome == "proven-in-part":
        print("proven in part: nothing is contradicted, and this was not compared:")
    for text in found.not_checked:
        print(f"not compared {text}")
    for text in found.wrong:
        print(f"gramwatt: {text}", file=sys.stderr)
    for text in found.held:
        print(f"equal        {text}")
    print(f"\nTo be believed: {' '.join(found.believed)}")
