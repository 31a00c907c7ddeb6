"""Jobs of many kinds, drawn at random: what sums must hold for."""

from datetime import timedelta

from tests.journals import T0, Writer

PARTS = ("NVIDIA H100 80GB HBM3", "NVIDIA L4", "NVIDIA A100-SXM4-80GB", "Unheard-of 9000")
ZONES = ("DE", "FR", "US-CAL-CISO", None)
H = 3600.0


def random_job(draw, number):
    """The lines of a job of one to three nodes somewhere between 25 April and 5 June."""
    name, shared = f"job-{number:02d}", draw.random() < 0.5
    start = draw.uniform(-6 * 86_400, 35 * 86_400)
    hours = draw.choice([0.1, 1, 5, 30, 80])
    head = {
        "zone": draw.choice(ZONES),
        "pue": draw.choice([None, None, 1.0, 1.2]),
        "project": draw.choice(["vision", "speech", "lab"]),
        "kind": draw.choice(["training", "inference", "other"]),
        "tags": draw.choice([{}, {"user": "ada"}, {"user": "jon", "sweep": "lr"}]),
        "model_id": draw.choice([None, "m-1", "m-2"]),
        "units": draw.choice([(), ("image",), ("token", "image")]),
    }
    found = []
    for node in range(draw.choice([1, 1, 2, 3])):
        writer = Writer(f"w-{node}", f"n-{draw.randrange(4)}-{node}", name)
        writer.t0 = T0 + timedelta(seconds=round(start + 600 * node, 3))
        found.append(writer.job(**head))
        for gpu in range(draw.choice([1, 2])):
            board = f"GPU-{draw.randrange(5)}" if shared else f"GPU-{name}-{node}-{gpu}"
            found += _read(draw, writer, f"{board}-{node}-{gpu}", hours)
        for unit in head["units"]:
            if draw.random() < 0.7:
                at_s = draw.uniform(1, hours * H)
                found.append(writer.count(draw.uniform(1, 1e6), unit, seconds=at_s))
        found.append(writer.end(hours * H, draw.choice(["completed", "completed", "failed"])))
    return name, found


def _read(draw, writer, board, hours):
    kind = draw.choice(["measured", "measured", "integrated", "estimated"])
    found = [writer.device(board, name=draw.choice(PARTS), kind=kind)]
    if draw.random() < 0.1:
        return found  # nothing of it is read: the job's energy is not known
    steps = max(1, round(hours / 3))
    watts, busy = draw.choice([0.0, 120.0, 300.0, 650.0]), draw.choice([None, 0.01, 0.9])
    for n in range(steps):
        span = (n * hours * H / steps, (n + 1) * hours * H / steps)
        joules = watts * (span[1] - span[0])
        found.append(writer.interval(*span, joules, board, kind=kind, utilisation_mean=busy))
    return found
