"""The meter process: one per node and job, beside the job and never in it.

`main` runs the loop, `node_meter` orders the work, `device_manager` knows the devices. Imports
every room above it in the layers of pyproject.toml.
"""
