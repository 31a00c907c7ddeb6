"""Sources of power and energy: one vendor, one file, behind the interface of `devices.base`.

`nvml.Pynvml` reads NVIDIA's GPUs and is the only file that imports pynvml. Every other vendor is a
`vendor.VendorPort`; `vendors.present` and `vendors.ports` find those of this machine.
docs/contributing.md ("Add a vendor") has the steps for another one.
"""
