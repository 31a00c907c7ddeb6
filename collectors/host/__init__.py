"""Energy of the host's processor and memory: RAPL counters, codecarbon, or a model of their power.

Each is a `model.HostSource`; `devices.HostComponent` records what it tells, and what is billed of
it by `share.Share`. `machine.this_machine` finds the part of the host that a job may use.
"""
