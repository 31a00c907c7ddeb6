"""Job documents for the exports' tests, made by the engine from journals."""

from datetime import timedelta

from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.grid.intensity import IntensityPoint
from gramwatt.sci.journal.merge import merge
from gramwatt.sci.score.score import ScoreContext, score
from tests.sci.writers import T0, Writer

CATALOG = load_catalog()
H100 = {"name": "NVIDIA H100 80GB HBM3", "units_total": 8.0}


class Grid:
    """Intensity that changes every `step_s`, from 40 min before T0 on."""

    def __init__(self, step_s=3600.0, quality="hourly"):
        self.step, self.quality = timedelta(seconds=step_s), quality

    def points(self, zone, start, end):
        first = T0 - timedelta(minutes=40)
        n = (start - first) // self.step
        found = []
        while first + n * self.step < end:
            # A grid between 60 and 459 g/kWh, with nothing regular about it.
            value = 60 + (n * 7919) % 400 + 0.1
            figure = Quantity.around(value, 0.1, "gCO2e/kWh", "measured", "test grid 2026")
            left = first + n * self.step
            found.append(
                IntensityPoint(zone or "world", left, left + self.step, figure, self.quality)
            )
            n += 1
        return found


def journal(*, gpus=2, nodes=("n-a",), seconds=9000.0, start=0.0, every=300.0, **job):
    """A training job on several nodes; every GPU draws a power of its own, the host another."""
    records = []
    for index, node in enumerate(nodes):
        writer = Writer(f"w{index}", node=node)
        given = {"zone": "DE", "pue": 1.21, "units": ("token",), "name": "run 1", **job}
        started_at = T0 + timedelta(seconds=start)
        records.append(writer.job(role="command", started_at=started_at, **given))
        devices = [(f"GPU-{node}-{n}", 611.37 + 13 * n + 101 * index) for n in range(gpus)]
        records += [writer.device(name, **H100) for name, _ in devices]
        records.append(writer.device(f"cpu-{node}", device_class="cpu", name="CPU", units=32.0))
        devices.append((f"cpu-{node}", 187.7))
        moment = start
        while moment < start + seconds:
            end = min(moment + every, start + seconds)
            for name, power in devices:
                wobble = 1 + 0.1 * ((moment // every) % 3)
                energy_j = power * wobble * (end - moment)
                records.append(writer.interval(moment, end, energy_j, device_id=name))
            moment = end
        records.append(writer.count(48_234_496.0, "token", seconds=start + 1))
        records.append(writer.end(start + seconds, exit_code=0))
    return records


def document(*, intensity=None, **given):
    """The scored document of `journal(**given)`."""
    return score(merge(journal(**given)), ScoreContext(CATALOG, intensity or Grid()))
