"""The meter process: one for each client, of which one on a node measures; never inside the job.

`main.main` runs the loop and `node_meter.NodeMeter` orders the work: `device_manager` knows the
devices, `count_buffer` and `windows` the client's counts, `resume` what earlier meters left.
"""
