"""Time and memory of a month that DuckDB makes of a lake, beside a bare GROUP BY of its columns.

    python -m benchmarks.lake [--jobs 10000000] [--folder FOLDER]

Makes the rows of so many jobs in a month by SQL (in a temporary folder, or in FOLDER, which is kept
and used again): each job has one day, one count, one emission factor, two components and four
inputs that it shares. Sums the month as `gramwatt month --from` does, and groups each table once by
its keys, adding up every figure, in a process each. Exit code 1 above 20 s or 2 GB, or where the
bare grouping takes less than half of the month's time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from gramwatt.service.lake import _SQL, MANIFESTS, MEMORY, METHODS, TABLES, _typed

MONTH = "2026-05"
TIME_MOST_S, MEMORY_MOST_MB, RATIO_LEAST = 20.0, 2000.0, 0.5
PROJECTS, METHOD = 40, 7
OWN = {
    "project": f"'project-' || (i % {PROJECTS})",
    "job_id": "'job-' || i",
    "traits": "1000 + i % 400",
    "method": f"{METHOD}",
    "name": "'train'",
    "model_id": "'org/model-' || (i % 20)",
    "persona": "'provider'",
    "kind": "'training'",
    "state": "CASE WHEN i % 20 = 0 THEN 'failed' ELSE 'completed' END",
    "owner": "'owner-' || (i % 200)",
    "hardware": "'nvidia-h100-sxm5-80'",
    "work": "'training'",
    "units": "'image'",
    "unit": "'image'",
    "conformance": "'conforming'",
    "grade": "'B'",
    "day": f"'{MONTH}-' || lpad((1 + i % 31)::VARCHAR, 2, '0')",
    "term": "CASE WHEN n = 0 THEN 'operational' ELSE 'embodied' END",
    "component": "'gpu'",
    "input_id": "'input-' || ((i + 7 * n) % 60)",
    "zone": "CASE WHEN i % 3 = 0 THEN 'DE' ELSE 'FR' END",
    "quality": "'hourly'",
    "series": "'average'",
    "source": "'made'",
    "pue_kind": "'declared'",
    "pue_source": "'made'",
    "ended": "1",
    "jobs": "1",
    "jobs_ended": "1",
    "revision": "1",
}
"""How columns are made of the job `i` and the row `n` of it."""
VALUE = "(0.1 + (i * 7919 % 1000003) / 1000.0)"
SCALES = {"_own_low": "-0.03 * ", "_own_high": "0.03 * ", "_low": "0.9 * ", "_high": "1.2 * "}
ROWS = {"month_effects": 4, "month_components": 2}
GROUPS = {
    "job_months": "traits",
    "month_effects": "input_id, traits",
    "month_days": "day, project, unit",
    "month_counts": "traits, unit",
    "month_components": "term, component",
    "month_factors": "traits, zone, quality, series, source, pue_kind, pue_source, pue",
}


def expression(table: str, column: str, kind: str) -> str:
    """How a column is made."""
    if column in OWN:
        return OWN[column]
    if column == "wasted_g":
        return f"CASE WHEN i % 10 = 0 THEN {VALUE} ELSE 0.0 END"
    if not kind.startswith("float"):
        return "0" if kind == "int" else "NULL" if kind.endswith("?") else "''"
    if table == "month_effects":
        return f"{'-' if column.endswith('low') else ''}0.01 * {VALUE}"
    if column.startswith("pue"):
        return "1.2"
    unused = ("energy_kwh_", "intensity_kwh_", "embodied_g_tier_")
    if column.startswith(unused) and not column.endswith(("_own_low", "_own_high", "low", "high")):
        return VALUE if column.endswith(("measured", "hourly", "tier_b")) else "0.0"
    scale = next((SCALES[end] for end in SCALES if column.endswith(end)), "")
    return f"{scale}{VALUE}"


def make(folder: Path, jobs: int) -> None:
    """Make the files, unless they are there."""
    if (folder / MANIFESTS).exists():
        return
    with duckdb.connect() as con:
        con.execute(f"SET memory_limit = '{MEMORY}'; SET preserve_insertion_order = false")
        for table in GROUPS:
            path = folder / table / f"month={MONTH}" / "part.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            columns = ", ".join(
                f'({expression(table, name, kind)})::{_SQL[kind.rstrip("?")]} AS "{name}"'
                for name, kind in TABLES[table].items()
                if name != "month"
            )
            rows = f"range({jobs}) jobs(i), range({ROWS.get(table, 1)}) more(n)"
            made = f"SELECT {columns} FROM {rows}"
            con.execute(f"COPY ({made}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        texts = ("energy", "operational", "embodied", "pue", "source", "zone")
        rows_of = {"month_methods": [""], "month_method_texts": texts}
        for table in METHODS:
            path = folder / table / "part.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            con.execute(f"CREATE OR REPLACE TABLE rows ({_typed(table)})")
            for what in rows_of[table]:
                values = dict.fromkeys(TABLES[table], "1") | {"method": METHOD}
                values |= {name: "declared" for name in values if name.endswith("_kind")}
                values |= {"what": what} if what else {}
                places = ", ".join("?" * len(values))
                con.execute(f"INSERT INTO rows VALUES ({places})", [*values.values()])
            con.execute(f"COPY rows TO '{path}' (FORMAT parquet)")
    (folder / MANIFESTS).mkdir()
    (folder / MANIFESTS / f"{MONTH}.json").write_text("{}")


def bare(folder: Path) -> None:
    """Group each table once by its keys, and add up every figure of it."""
    with duckdb.connect(config={"temp_directory": "/tmp", "memory_limit": MEMORY}) as con:
        for table, keys in GROUPS.items():
            figures = [name for name, kind in TABLES[table].items() if kind.startswith("float")]
            sums = ", ".join(f"SUM({name})" for name in figures if name not in keys)
            rows = f"read_parquet('{folder}/{table}/*/*.parquet')"
            con.execute(f"SELECT {keys}, {sums} FROM {rows} GROUP BY {keys}").fetchall()


def main() -> int:
    """Print the figures; 1 where one is beyond its limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--measure", choices=("month", "bare"))
    arguments = parser.parse_args()
    if arguments.measure:
        return measure(arguments.measure, arguments.folder)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        make(folder, arguments.jobs)
        size_mb = sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 1e6
        print(f"{arguments.jobs} jobs, {size_mb:.0f} MB of files")
        figures = {}
        for name in ("bare", "month"):
            command = [sys.executable, "-m", "benchmarks.lake", "--measure", name]
            done = subprocess.run(
                [*command, "--folder", str(folder)], capture_output=True, text=True, check=True
            )
            figures[name] = [float(text) for text in done.stdout.split()]
            print(f"{name:<6} {figures[name][0]:6.1f} s {figures[name][1]:6.0f} MB")
    seconds, memory_mb = figures["month"]
    ratio = figures["bare"][0] / seconds
    print(f"bare over month {ratio:.2f}, at least {RATIO_LEAST}")
    print(f"limits {TIME_MOST_S:.0f} s, {MEMORY_MOST_MB:.0f} MB")
    return int(seconds > TIME_MOST_S or memory_mb > MEMORY_MOST_MB or ratio < RATIO_LEAST)


def measure(name: str, folder: Path) -> int:
    """Print seconds and peak memory [MB] of one way, in a process of its own."""
    import resource

    from gramwatt.service.lake import month_from

    start = time.perf_counter()
    if name == "bare":
        bare(folder)
    else:
        assert month_from(str(folder), MONTH).totals.jobs > 0
    seconds = time.perf_counter() - start
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
