"""The meter process: one for each client, of which one on a node measures; never inside the job.

`main` runs the loop and `NodeMeter` orders the work: `device_manager` knows the devices,
`count_buffer` and `windows` the client's counts, `resume` what earlier meters left. Imports every
room above it in the layers of pyproject.toml, but not `testing`. Public: `main.main`.
"""
