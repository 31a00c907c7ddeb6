"""Embodied carbon TE of accelerators and hosts, computed from catalog facts.

`te.accelerator_te`, `te.host_te`, `te.socket_te`, `te.instance_host_te`; the job's share, M, is in
`sci/score/allocation.py`.
"""
