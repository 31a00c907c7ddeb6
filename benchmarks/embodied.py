"""The embodied model against published studies: its validation table from the shipped parameters.

    python benchmarks/embodied.py

Each line is a board with a published study: kilograms as published, and by the bottom-up model with
the die factor k at 1.0 and as shipped, with their errors; then the geometric bias and the spread.
The sources of the studies are in sci/catalog/data/embodied_studies.csv, those of the boards in
hardware.csv. The studies were used to choose k, so this is a check of consistency.
"""

from __future__ import annotations

import math
import statistics

from gramwatt.sci.catalog.embodied_facts import Dies
from gramwatt.sci.catalog.parameters import parameters
from gramwatt.sci.embodied.te import Board, board_kg

POINTS = (
    ("H100 SXM (NVIDIA PCF)", Board((Dies(814, 1, 5),), 700, 80, "HBM3"), 164.0),
    ("B200 (NVIDIA PCF)", Board((Dies(1600, 2, 5),), 1000, 180, "HBM3e"), 284.25),
    ("A100 SXM 40 (Falk)", Board((Dies(826, 1, 7),), 400, 40, "HBM2"), 127.6),
    ("A100 SXM 40 (ADEME)", Board((Dies(826, 1, 7),), 400, 40, "HBM2"), 113.5),
    ("A100 PCIe 40 (ADEME)", Board((Dies(826, 1, 7),), 250, 40, "HBM2"), 122.0),
    ("H100 PCIe 80 (ADEME)", Board((Dies(814, 1, 5),), 350, 80, "HBM2e"), 170.1),
    ("L4 (ADEME)", Board((Dies(294, 1, 5),), 72, 24, "GDDR6"), 57.7),
    ("P100 (ADEME)", Board((Dies(610, 1, 16),), 250, 16, "HBM2"), 66.6),
    ("RTX A4500 (ADEME)", Board((Dies(628, 1, 8),), 200, 20, "GDDR6"), 100.9),
    ("TITAN RTX (ADEME)", Board((Dies(754, 1, 12),), 280, 24, "GDDR6"), 124.8),
    ("GTX 1080 Ti (ADEME)", Board((Dies(471, 1, 16),), 250, 11, "GDDR5X"), 74.3),
)


def main() -> None:
    """Print the table and its summary."""
    shipped = parameters()["k_die"]
    factors = (1.0, shipped)
    print(f"{'point':<24}{'published':>10}" + "".join(f"{f'k = {k:g}':>18}" for k in factors))
    for name, board, published in POINTS:
        made = [board_kg(board, k) for k in factors]
        cells = "".join(f"{kg:>11.0f} {kg / published - 1:>+6.0%}" for kg in made)
        print(f"{name:<24}{published:>10.1f}{cells}")
    for k in factors:
        logs = [math.log(board_kg(board, k) / published) for _, board, published in POINTS]
        bias, spread = math.exp(statistics.mean(logs)), statistics.stdev(logs)
        print(f"k = {k:g}: geometric bias {bias:.2f}, standard deviation of the log {spread:.2f}")


if __name__ == "__main__":
    main()
