"""The devices of one job on one node: which they are, when they are read, what their energy is.

`port.DevicePort` is the interface of all sources. `group.DeviceGroup` adopts, samples and records
the devices of one port; `sampler.Sampler` decides when to read, `device.Device` reads and records,
`energy.EnergyMeter` turns readings into joules, `boundaries.counter_at` gives the counter's value
at a moment, `cross_check.CrossCheck` compares counter and power. `sharing.SharedBoards` bills a
job's part of a board that several jobs use; `locks.DeviceLocks` finds the other measured jobs.
"""
