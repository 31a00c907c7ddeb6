"""The energy of one GPU: when it is read, what lies between two readings, and how it was running.

`sampler.Sampler` decides when to read, `device.Device` reads and records, `reader.best_read` finds
the calls that a device offers, `energy.GpuMeter` turns readings into joules,
`boundaries.counter_at` gives the counter's value at a moment, `cross_check.CrossCheck` compares
counter and power. A device is used only through `devices.base`, whose calls follow NVML.
"""
