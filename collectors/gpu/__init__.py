"""The energy of one GPU: when it is read, what lies between two readings, and how it was running.

`sampler` decides when to read, `energy` turns readings into joules, `boundaries` finds the
counter's value at a moment. Imports `journal`, `devices` and `common`; knows no vendor.
"""
