"""How often published ranges hold a known truth: `python -m benchmarks.calibration`."""
