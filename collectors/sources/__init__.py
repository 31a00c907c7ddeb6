"""Power and energy sources: one vendor, one file, behind the ports of `devices.base`.

A new vendor is one file here and one line in `vendors`. Imports `devices` and `common`.
"""
