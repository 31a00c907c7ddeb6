"""The micro-benchmark behind `gramwatt calibrate`.

`benchmark.run` measures a device through a `Workbench`, which does the work, and a `DevicePort`,
which reads power; `torch_bench.TorchBench` is the only workbench, and its file the only one that
imports torch. Imports `gpu`, `meter.source_choice` and lower layers.
"""
