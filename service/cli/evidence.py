"""The commands `gramwatt evidence ...`: scores with all their inputs, for others."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gramwatt.collectors.cli.options import group, grouped, show
from gramwatt.collectors.settings.files import whole_file, why
from gramwatt.collectors.settings.installation import install_command
from gramwatt.collectors.settings.progress import bar
from gramwatt.service.cli.common import (
    AsJson,
    current_service,
    job_errors,
    job_id,
    log_act,
    own_store_alone,
    print_json,
    service_config,
    stop,
)
from gramwatt.service.common.requests import ProjectQuery

if TYPE_CHECKING:
    from gramwatt.service.evidence import Verdict

BundleFile = Annotated[
    Path | None, typer.Option("-o", "--output", help="File to write (default: ID.zip).")
]


@partial(grouped, project="Only this project of a month.")
def evidence_export(
    query: ProjectQuery,
    text: Annotated[
        str, typer.Argument(metavar="[ID]", help="A job (default: last), or a month: 2026-05.")
    ] = "last",
    output: BundleFile = None,
) -> None:
    """Write everything that a score or a month is computed from to one file."""
    from gramwatt.reports.printable import file_name
    from gramwatt.service.evidence import EvidenceError, KeyFileError, export, kind_of

    project = query.project
    own_store_alone()
    with current_service() as service:
        kind = kind_of(service, text)
        if kind == "job" and project is not None:
            stop(2, "--project is for a month; a job's id says which job")
        name = job_id(service, text) if kind == "job" else text
        path = output or Path(
            f"{'-'.join(file_name(text) for text in (name, project) if text)}.zip"
        )
        try:
            with job_errors(text), whole_file(path) as stream, bar("exporting") as progress:
                export(service, stream, kind, name, project, folder=path.parent, progress=progress)
        except KeyFileError as error:
            stop(1, str(error))
        except EvidenceError as error:
            stop(1, f"{name} is too large for an evidence bundle: {error.message}")
        except ImportError:
            _needs_signing()
        except OSError as error:
            stop(1, f"cannot write {path}: {why(error)}")
        of_project = f" of {project}" if project else ""
        log_act(service, "exported", f"evidence of {name}{of_project}")
    print(path)


def _needs_signing() -> NoReturn:
    stop(1, f"signatures need the extra `signing`; to install it: {install_command('signing')}")


def evidence_key() -> None:
    """Make the key pair that signs evidence, unless there is one; prints the public key's file."""
    from gramwatt.service.evidence import KeyFileError, make_key

    home = service_config().home
    try:
        print(make_key(home))
    except ImportError:
        _needs_signing()
    except KeyFileError as error:
        stop(1, str(error))
    except OSError as error:
        stop(1, f"cannot write a key to {home}: {why(error)}")


def evidence_verify(
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="What evidence export wrote.")],
    key: Annotated[
        Path | None, typer.Option(help="The signer's public key: it must be signed with that.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score the jobs again, sum the month again, and compare; without store or network.

    0: proven, 1: altered, 3: proven in part, where something could not be compared.
    """
    from gramwatt.service.evidence import (
        EvidenceError,
        KeyFileError,
        read_public_key,
        verify,
    )

    try:
        trusted = read_public_key(key) if key is not None else None
        with file.open("rb") as stream, bar("verifying") as progress:
            verdict = verify(stream, trusted, progress)
    except OSError as error:
        stop(1, f"cannot read {file}: {why(error)}")
    except KeyFileError as error:
        stop(2, str(error))
    except ImportError:
        _needs_signing()
    except EvidenceError as error:
        if as_json:
            print_json({"outcome": "altered", "wrong": [error.message], "part": error.part})
        stop(1, f"{file} does not verify: {error.message}")
    if as_json:
        document = {"outcome": verdict.outcome, "bundle": verdict.about, "wrong": verdict.wrong}
        rest = {"not_compared": verdict.not_compared, "equal": verdict.equal}
        print_json(document | rest | {"versions": verdict.versions, "trusted": verdict.trusted})
    else:
        _show(verdict)
    if verdict.outcome == "altered":
        number = len(verdict.wrong)
        text = f"{number} {'thing differs' if number == 1 else 'things differ'}"
        for other in verdict.versions:
            text += f"; {other}, so that figures may differ: verify with the release that made it"
        stop(1, f"{file} does not verify: {text}")
    if verdict.outcome == "proven-in-part":
        raise typer.Exit(3)


def _show(verdict: Verdict) -> None:
    """Print what was found, what was not compared first; what differs on stderr."""
    if verdict.outcome == "proven-in-part":
        show("proven in part: nothing differs, and this was not compared:")
    for text in verdict.not_compared:
        show(f"not compared {text}")
    for text in verdict.wrong:
        show(f"gramwatt: {text}", err=True)
    for text in [*verdict.equal, *(f"{text}: figures were compared" for text in verdict.versions)]:
        show(f"equal        {text}")
    show("", "Taken on trust:")
    for text in verdict.trusted:
        show(f"- {text}")


app = group(
    "A score with all its inputs in one file, scored again by others.",
    export=evidence_export,
    verify=evidence_verify,
    key=evidence_key,
)
