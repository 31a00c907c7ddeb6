"""What a meter asks of a device, and which devices are the job's.

`base` holds the interface and the errors of all sources; `visibility` decides by the
environment which devices are billed: `visible` for NVIDIA, `amd`, `gaudi`, `neuron` and `tpu` for
other vendors. Imports `sci` only.
"""
