"""The test kit: a virtual clock, a synthetic NVML with exact truth, replay and record of traces.

Shipped, so that a user can try the meter without a GPU: GRAMWATT_NVML names a specification or a
trace. `python -m gramwatt.collectors.testing.record` records a trace of this machine.
"""
