"""The interface of all device sources, and which devices are the job's.

`base` holds the interface and its errors; `visibility` decides by the environment which devices are
billed: `visibility.visible` for NVIDIA, a function for each other vendor.
"""
