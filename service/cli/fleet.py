"""The groups of commands `gramwatt archive` and `gramwatt fleet`."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from gramwatt.collectors.common.files import why
from gramwatt.collectors.common.progress import each
from gramwatt.service.cli.common import (
    AsJson,
    current_service,
    open_service,
    print_json,
    require_month,
    stop,
    upgraded_service,
)

if TYPE_CHECKING:
    from gramwatt.service.fleet.compute import ArchivedMonth
    from gramwatt.service.fleet.places import Place

T = TypeVar("T")
_MONTH = re.compile(r"\d{4}-\d{2}")
PlaceName = Annotated[str, typer.Argument(metavar="PLACE", help="A folder or s3://bucket/prefix.")]
From = Annotated[str, typer.Option("--from", help="A folder or s3://bucket/prefix of archives.")]
Months = Annotated[
    list[str] | None, typer.Option("--month", metavar="YYYY-MM", help="A month; all without.")
]
EngineName = Annotated[
    str, typer.Option("--engine", help="duckdb, or a Spark Connect server: sc://host:port.")
]
ByZone = list[str] | None
NAMED = 20
"""Jobs that a message names; `--json` has all."""


class _ByMonth(TyperGroup):
    """A group whose command for a month may be left out: `archive 2026-03`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Take a month as the first argument for that of the command `month`."""
        return super().resolve_command(ctx, ["month", *args] if _is_month(args) else args)


def _is_month(args: list[str]) -> bool:
    return bool(args and _MONTH.fullmatch(args[0]))


def archive_app() -> typer.Typer:
    """Return the group of commands."""
    app = typer.Typer(
        cls=_ByMonth,
        no_args_is_help=True,
        help="Archive closed months as Parquet files: gramwatt archive YYYY-MM --to PLACE",
    )
    app.command("month")(archive_month)
    app.command("verify")(archive_verify)
    app.command("list")(archive_list)
    app.command("restore")(archive_restore)
    return app


def fleet_app() -> typer.Typer:
    """Return the group of commands."""
    app = typer.Typer(no_args_is_help=True, help="Sum, restate or audit archived months.")
    app.command("sum")(fleet_sum)
    app.command("restate")(fleet_restate)
    app.command("audit")(fleet_audit)
    return app


def archive_month(
    month: Annotated[str, typer.Argument(metavar="YYYY-MM", help="A month that is over.")],
    to: Annotated[str, typer.Option("--to", help="A folder or s3://bucket/prefix.")],
    as_json: AsJson = False,
) -> None:
    """Write a month's lines, parts and factors as Parquet files, and read them back.

    A month that is archived gets a new revision of what changed since; old files are set aside.
    """
    from gramwatt.service.fleet import archive

    require_month(month)
    with current_service() as service, _place(to) as place:
        found = archive.archive_month(
            service, month, place, each=lambda keys: each(keys, "archiving")
        )
    manifest = found.manifest
    if as_json:
        print_json({"month": month, "revision": manifest.revision, "is_new": found.is_new})
        return
    lines = manifest.rows("intervals")
    state = "archived" if found.is_new else "unchanged, read back"
    print(f"{month} revision {manifest.revision}: {state}, {lines} intervals in {place.address}")


def archive_verify(place: PlaceName, as_json: AsJson = False) -> None:
    """Read every file of an archive back: digests, rows, sums, and nothing that is left over."""
    from gramwatt.service.fleet.archive import verify
    from gramwatt.service.fleet.manifest import files_in, leftovers, months_in, require_month
    from gramwatt.service.fleet.places import ArchiveError

    rows, failed = [], 0
    with _place(place) as opened:
        months = sorted({*months_in(opened), *files_in(opened)})
        if not months:
            stop(1, f"{place} has no archive")
        for month in months:
            row: dict[str, Any] = {"month": month, "error": None}
            try:
                manifest = require_month(opened, month)
                verify(opened, manifest)
                row |= {"revision": manifest.revision, "intervals": manifest.rows("intervals")}
                if left := leftovers(opened, manifest):
                    raise ArchiveError(f"{left[0]} is in no manifest; archive {month} again")
            except ArchiveError as error:
                row["error"] = error.message
                failed += 1
            rows.append(row)
    if as_json:
        print_json({"months": rows})
    for row in rows if not as_json else ():
        print(f"{row['month']}: {row['error'] or _whole(row)}")
    if failed:
        raise typer.Exit(1)


def _whole(row: dict[str, Any]) -> str:
    return f"revision {row['revision']}, {row['intervals']} intervals read back"


def archive_list(place: PlaceName, as_json: AsJson = False) -> None:
    """List the months of an archive, by their manifests."""
    from dataclasses import asdict

    from gramwatt.service.fleet.manifest import months_in, require_month

    with _place(place) as opened:
        found = [require_month(opened, month) for month in months_in(opened)]
    if not found:
        stop(1, f"{place} has no archive")
    if as_json:
        print_json({"months": [asdict(manifest) for manifest in found]})
        return
    for manifest in found:
        jobs, lines = manifest.rows("jobs"), manifest.rows("intervals")
        size_mb = sum(file.bytes for file in manifest.files) / 1e6
        about = f"{jobs} jobs, {lines} intervals, {size_mb:.1f} MB, {manifest.made_at[:19]}Z"
        print(f"{manifest.month}  revision {manifest.revision}  {about}")


def archive_restore(
    place: PlaceName,
    month: Months = None,
    job: Annotated[
        str | None, typer.Option("--job", help="Only this job, by its whole id.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Bring the deleted lines of archived jobs back into the store; what was erased stays erased.

    With GRAMWATT_RETENTION_DAYS the server deletes them again once they are archived as they are.
    """
    from gramwatt.service.fleet.manifest import months_in
    from gramwatt.service.fleet.restore import restore_month

    with upgraded_service() as service, _place(place) as opened:
        found = []
        for one in _months(month) or months_in(opened):
            found.append(
                restore_month(service, one, opened, job_id=job, each=lambda k: each(k, "restoring"))
            )
        if not found:
            stop(1, f"{place} has no archive")
    counts = ("restored", "there_already", "deleted_or_erased", "not_whole")
    if job is not None and not any(row[count] for row in found for count in counts):  # type: ignore[literal-required]
        stop(1, f"job {job} is not in {place}")
    if as_json:
        print_json({"months": found})
    for row in found if not as_json else ():
        others = f"{row['there_already']} had theirs, {row['deleted_or_erased']} were deleted"
        print(f"{row['month']}: lines of {row['restored']} jobs restored; {others}")
    if left := sorted({job_id for row in found for job_id in row["not_whole"]}):
        more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
        text = f"{', '.join(left[:NAMED])}{more} stay without lines: {place} does not have all"
        stop(1, text)


def fleet_sum(
    source: From, month: Months = None, engine: EngineName = "duckdb", as_json: AsJson = False
) -> None:
    """Print the totals of archived months with their ranges, as the store has them."""
    found = _computed(source, month, engine, lambda opened: opened.summed())
    if as_json:
        print_json(found[0] if len(found) == 1 else {"months": found})
        return
    for row in found:
        print(f"{row['month']}  {row['totals']['jobs']} jobs  {_range(row['totals']['total_g'])}")
        for project in row["projects"]:
            kwh = project["energy_j"] / 3.6e6
            print(f"  {project['project']}: {project['intervals']} intervals, {kwh:.6g} kWh")


def fleet_restate(
    source: From,
    month: Months = None,
    engine: EngineName = "duckdb",
    intensity: Annotated[
        ByZone, typer.Option(metavar="ZONE=G", help="New annual value of a zone, in gCO2e/kWh.")
    ] = None,
    hours: Annotated[
        Path | None,
        typer.Option(help="CSV with columns zone, hour (as 2026-03-01T00Z) and g_per_kwh."),
    ] = None,
    pue: Annotated[ByZone, typer.Option(metavar="[ZONE=]X", help="New PUE.")] = None,
    lifetime_years: Annotated[
        float | None, typer.Option(min=0.1, help="New expected lifetime of all hardware, in years.")
    ] = None,
    contract: Annotated[
        ByZone, typer.Option(metavar="[ZONE=]G", help="Intensity under contract, in gCO2e/kWh.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what new factors would change in archived months, by cause and project.

    Nothing is changed: see docs/fleet.md on how a report comes to be restated.
    """
    from gramwatt.service.fleet.compute import NewFactors

    factors = NewFactors(
        annual=_by_zone("--intensity", intensity, everywhere=False),
        hourly=_hours(hours) if hours else {},
        pue=_by_zone("--pue", pue, least=1.0),
        contract=_by_zone("--contract", contract),
        lifetime_years=lifetime_years,
    )
    if factors == NewFactors():
        stop(2, "name what is new: --intensity, --hours, --pue, --lifetime-years or --contract")
    zones, found = set[str](), []
    for seen, row in _computed(source, month, engine, lambda m: (m.zones(), m.restated(factors))):
        zones |= seen
        found.append(row)
    if unknown := sorted(factors.zones() - zones):
        stop(1, f"no energy was used in {', '.join(unknown)}, but in {', '.join(sorted(zones))}")
    if as_json:
        print_json(found[0] if len(found) == 1 else {"months": found})
        return
    for row in found:
        print(f"{row['month']}  {_range(row['old_g'])} -> {_range(row['new_g'])}")
        for cause, change_g in row["by_cause"].items():
            print(f"  {cause}: {change_g / 1000:+.6g} kgCO2e")
        for project in row["projects"]:
            print(f"  {project['project']}: {project['change_g'] / 1000:+.6g} kgCO2e")


def fleet_audit(
    source: From, month: Months = None, engine: EngineName = "duckdb", as_json: AsJson = False
) -> None:
    """Check that lines, hours, jobs and months of an archive sum to the same; exit code 1 if not.

    Jobs whose score left lines out, such as those of a device that two nodes reported, are named.
    """
    found = _computed(source, month, engine, lambda opened: opened.audited())
    if as_json:
        print_json(found[0] if len(found) == 1 else {"months": found})
    for row in found if not as_json else ():
        print(f"{row['month']}  {row['jobs_differing']} jobs have lines that no figure has")
        for check in row["checks"]:
            sign = "=" if check["is_equal"] else "is not"
            print(f"  {check['what']}: {check['one']:.12g} {sign} {check['other']:.12g}")
    if not all(check["is_equal"] for row in found for check in row["checks"]):
        raise typer.Exit(1)


@contextmanager
def _place(address: str) -> Iterator[Place]:
    """Yield a place of archives; exits with 1 for what is refused."""
    from gramwatt.service.fleet.places import ArchiveError, open_place

    try:
        place = open_place(address)
        try:
            yield place
        finally:
            place.close()
    except ArchiveError as error:
        stop(1, error.message)
    except OSError as error:
        stop(1, f"cannot read {address}: {why(error)}")


def _computed(
    source: str, months: list[str] | None, engine: str, work: Callable[[ArchivedMonth], T]
) -> list[T]:
    """Return what is computed of each month on the engine; exits with 1 for what is refused."""
    from gramwatt.service.fleet.compute import ArchivedMonth
    from gramwatt.service.fleet.engines import open_engine
    from gramwatt.service.fleet.manifest import months_in

    with _place(source) as place:
        wanted = _months(months) or months_in(place)
        if not wanted:
            stop(1, f"{source} has no archive")
        opened, names = open_engine(engine), _names()
        try:
            return [work(ArchivedMonth(place, month, opened, names)) for month in wanted]
        finally:
            opened.close()


def _names() -> dict[str, str]:
    """Return the names of projects by id, of the store at hand; none where there is none."""
    from gramwatt.service.fleet.archive import project_names
    from gramwatt.service.store.migrate import is_current

    with open_service() as service:
        path = service.store.path
        if path is not None and not path.exists():
            return {}
        return project_names(service) if is_current(service.store) else {}


def _months(months: list[str] | None) -> list[str]:
    for month in months or ():
        require_month(month)
    return months or []


def _by_zone(
    option: str, given: ByZone, *, least: float = 0.0, everywhere: bool = True
) -> dict[str, float]:
    """Return numbers by zone, of ZONE=X or X alone for every zone; exits with 2 for others."""
    from gramwatt.service.fleet.compute import ALL_ZONES

    found = {}
    for word in given or ():
        zone, _, number = word.rpartition("=")
        try:
            found[zone or ALL_ZONES] = float(number)
        except ValueError:
            stop(2, f"{option} {word}: {number!r} is not a number")
        if not least <= found[zone or ALL_ZONES] < 1e6 or not (zone or everywhere):
            stop(
                2,
                f"{option} {word}: write {'[ZONE=]X' if everywhere else 'ZONE=X'}, X >= {least:g}",
            )
    return found


def _hours(path: Path) -> dict[tuple[str, int], float]:
    from datetime import datetime

    found = {}
    try:
        with path.open(newline="") as stream:
            for row in csv.DictReader(stream):
                hour, grams = datetime.fromisoformat(row["hour"]), float(row["g_per_kwh"])
                if hour.tzinfo is None or not 0 <= grams < 1e6:
                    raise ValueError(f"{row['zone']},{row['hour']},{row['g_per_kwh']}")
                found[row["zone"], int(hour.timestamp() // 3600)] = grams
    except (OSError, KeyError, ValueError, TypeError) as error:
        stop(2, f"--hours {path}: needs columns zone, hour (UTC, ends in Z) and g_per_kwh: {error}")
    return found


def _range(figure: Any) -> str:
    if figure is None:
        return "not known"
    value, low, high = (figure[name] / 1000 for name in ("value", "low", "high"))
    return f"{value:.6g} kgCO2e ({low:.6g} to {high:.6g})"
