"""The test kit: a virtual clock, a synthetic NVML with exact truth, replay and recording of traces.

Shipped with the package, so that anyone can check the meter against a known waveform.
"""
