"""The interface of all device sources, and which devices are the job's.

`base` holds the interface and its errors; `visibility` decides by the environment which devices are
billed: `visible` for NVIDIA, `amd`, `gaudi`, `neuron` and `tpu` for other vendors. Imports `sci`
only.
"""
