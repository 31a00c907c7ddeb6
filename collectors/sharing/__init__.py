"""Which part of a device's energy is this job's when several jobs use it.

`attribution.SharedBoards` bills a job's part of its GPU boards, by the pure `attribution.shares`
and `attribution.part_j`; `locks.DeviceLocks` finds the other measured jobs of the same home.
"""
