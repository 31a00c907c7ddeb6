"""`gramwatt calibrate`: measure what a device of this machine reaches, as a row for suggestions."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from gramwatt.collectors.cli.exit_codes import FAILED
from gramwatt.collectors.cli.options import refuse
from gramwatt.collectors.cli.summary import quantity_text
from gramwatt.collectors.common.catalogs import user_catalog
from gramwatt.collectors.common.clock import NS_PER_S, Clock, SystemClock
from gramwatt.collectors.common.config import Config, resolve
from gramwatt.collectors.common.device_rows import REAL_METER, add_device_row
from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.port import Board, SourceAbsent, SourceError
from gramwatt.collectors.microbenchmark.benchmark import Benchmark, Measured, Workbench
from gramwatt.collectors.microbenchmark.torch_bench import DTYPES, TorchBench, check_installed
from gramwatt.collectors.sources.nvml import Nvml, chosen_calls
from gramwatt.collectors.tracking.messages import print_message
from gramwatt.sci.advice.prediction.device_rows import DeviceRow
from gramwatt.sci.base.errors import GramwattError

if TYPE_CHECKING:
    from gramwatt.sci.catalog.catalog import Hardware

SECONDS, SECONDS_LEAST, SECONDS_MOST = 120.0, 5.0, 3600.0
Seconds = Annotated[float, typer.Option(help="How long to measure, 5 to 3600 seconds.")]
Device = Annotated[
    str | None, typer.Option(help="Index or UUID as nvidia-smi has it (default: the first).")
]
AsJson = Annotated[bool, typer.Option("--json", help="The row as JSON on stdout.")]


def command(seconds: Seconds = SECONDS, device: Device = None, as_json: AsJson = False) -> None:
    """Measure an NVIDIA GPU here for two minutes, for suggestions.

    It needs PyTorch, and nothing else may use the GPU meanwhile.

    Measured are rates and power of matrix products and copies, and idle power.
    """
    if not SECONDS_LEAST <= seconds <= SECONDS_MOST:
        refuse(f"--seconds {seconds:g}: give {SECONDS_LEAST:g} to {SECONDS_MOST:g}")
    config, clock = resolve(), SystemClock()
    try:
        port = _open(clock)
        try:
            row, failures = calibrate(port, config, clock, device, seconds)
        finally:
            port.close()
        path = add_device_row(config.home, row)
    except (GramwattError, OSError) as error:
        print_message(f"nothing was measured: {error}")
        raise typer.Exit(FAILED) from None
    for text in failures:
        print_message(text)
    typer.echo(json.dumps(row.to_doc(), indent=2) if as_json else "\n".join(lines(row)))
    print_message(f"stored in {path}")


def calibrate(
    port: Nvml, config: Config, clock: Clock, device: str | None, seconds: float
) -> tuple[DeviceRow, tuple[str, ...]]:
    """Return the row of a device of an open port, and what failed.

    Raises SourceError where it cannot be measured, LookupFailed for an unknown part.
    """
    board = _board(port, device)
    part = user_catalog(config).hardware(board.name)
    check_installed()
    _refuse_used(port, board.ordinal)
    # Before torch is loaded: CUDA reads it once, and the device is then its first and only one.
    os.environ[visibility.CUDA] = board.uuid
    if board.memory_b is None:
        raise SourceError(f"the memory of GPU {board.ordinal} cannot be read")
    bench = TorchBench(int(board.memory_b))
    measured = Benchmark(port, board.ordinal, clock, _progress).run(
        bench, _precisions(part), seconds
    )
    if not measured.loads:
        raise SourceError("; ".join(measured.failures))
    return _row(port, board, part, clock, bench, measured, seconds), measured.failures


def lines(row: DeviceRow) -> list[str]:
    """Return the row for people, as lines."""
    shown = [f"{row.hardware} ({row.device}), {row.software}, {row.measured_at}"]
    if row.meter != REAL_METER:
        shown.append(f"    read by {row.meter}: the powers are not of this hardware")
    powers = (("idle", row.idle_power), ("idle with a process", row.held_power))
    shown += [f"    {name:20} {quantity_text(power.to_doc())}" for name, power in powers if power]
    for load in row.loads:
        name = f"{load.work} {load.precision}" if load.precision else load.work
        power = f" at {quantity_text(load.power.to_doc())}" if load.power else ", power not known"
        shown.append(f"    {name:20} {quantity_text(load.rate.to_doc())}{power}")
    return shown


def _open(clock: Clock) -> Nvml:
    """Return the NVML to read, open; raises SourceAbsent without one."""
    port = Nvml(chosen_calls(os.environ, clock))
    try:
        port.open()
    except SourceAbsent as error:
        text = f"no NVIDIA GPU can be read, and only those are: {error}; see `gramwatt doctor`"
        raise SourceAbsent(text) from None
    return port


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print_message(text)


def _board(port: Nvml, device: str | None) -> Board:
    """Return the device by index or UUID; where none is named the first that is visible."""
    boards = [port.board(index) for index in range(port.count())]
    if not boards:
        raise SourceError("the driver lists no GPU: see `gramwatt doctor`")
    if device is None:
        billed = port.visible(os.environ, boards).billed
        chosen = [item.board for item in billed]
    else:
        chosen = [one for one in boards if device in (str(one.ordinal), one.uuid)]
    if not chosen:
        known = ", ".join(f"{one.ordinal} ({one.uuid})" for one in boards)
        refuse(f"--device {device or 'of this environment'}: no such GPU; there are: {known}")
    if chosen[0].slices:
        text = "is split by MIG, and a slice has no power sensor of its own: measure a whole GPU"
        raise SourceError(f"GPU {chosen[0].ordinal} {text}")
    return chosen[0]


def _refuse_used(port: Nvml, index: int) -> None:
    """Raise SourceError where other processes have work on the device."""
    try:
        pids = [user.pid for user in port.users(index)]
    except SourceError:  # a driver that does not report them
        return
    if pids:
        named = ", ".join(map(str, pids))
        raise SourceError(f"GPU {index} is in use by process {named}: stop it, then run again")


def _precisions(part: Hardware) -> list[str]:
    """Return the precisions of matrix products that the part has units for."""
    peak = part.peak
    has = {"fp32": True, "tf32": peak.tf32, "fp16": peak.fp16_tensor, "bf16": peak.bf16_tensor}
    return [name for name in DTYPES if has[name]]


def _row(
    port: Nvml,
    board: Board,
    part: Hardware,
    clock: Clock,
    bench: Workbench,
    measured: Measured,
    seconds: float,
) -> DeviceRow:
    moment = datetime.fromtimestamp(clock.wall_ns() // NS_PER_S, UTC)
    return DeviceRow(
        measured_at=moment.isoformat().replace("+00:00", "Z"),
        hardware=part.id,
        device=board.name,
        device_id=board.uuid,
        meter=port.meter,
        driver=port.driver() or "",
        software=bench.software,
        seconds=seconds,
        power_limit_w=port.limit_w(board.ordinal),
        idle_power=measured.idle,
        held_power=measured.held,
        loads=measured.loads,
    )
