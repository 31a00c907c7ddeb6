"""The seeded simulation (tests/simulation) over many seeds: `python -m benchmarks.simulation`."""
