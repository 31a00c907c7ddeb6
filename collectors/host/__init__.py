"""Energy of the host's processor and memory: RAPL counters, codecarbon, or a model of their power.

`meter.host_meter` chooses a reader for each part; `machine.this_machine` finds the part of the
host that a job may use.
"""
