"""Power and energy sources: one vendor, one file, behind the ports of `base`."""
