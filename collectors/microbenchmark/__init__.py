"""The micro-benchmark behind `gramwatt calibrate`.

`benchmark.Benchmark` measures a device through a `benchmark.Workbench`, which does the work, and a
port (`devices.port.DevicePort`), which reads power; `torch_bench.TorchBench` is the only workbench,
and its file the only one that imports torch.
"""
