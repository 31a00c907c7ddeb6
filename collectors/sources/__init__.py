"""Sources of power and energy: one vendor, one file, behind the interface of `devices.port`.

`vendors.ports` finds those of this machine. `nvml` reads NVIDIA's GPUs by the calls of
`nvml_calls`, which `synthetic` and `replay` answer too; `record` records a trace of them.
docs/extending.md has the steps for another one.
"""
