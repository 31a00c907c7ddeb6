"""Sources of power and energy: one vendor, one file, behind the ports of `devices.base`.

`nvml.Pynvml` reads NVIDIA's GPUs and is the only file that imports pynvml. Every other vendor is a
`vendor.VendorPort`; `vendors.present` and `vendors.ports` find those of this machine. To add one:

1. `sources/<vendor>.py`: a subclass of `VendorPort` that overrides what the vendor's library has;
   `jetson.py` is the shortest example. Which devices are the job's is its method `reserved`, by a
   rule in `devices/visibility.py`.
2. `sources/vendors.py`: a function that notices the devices, and a line of `VENDORS`.

Imports `devices` and `common`.
"""
