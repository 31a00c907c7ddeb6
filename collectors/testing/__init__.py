"""The test kit: a virtual clock, a synthetic NVML with exact truth, replay and recording of traces.

Shipped, so that a user can try the meter without a GPU. Imports `sources`, `devices` and `common`.
"""
