"""Embodied carbon TE of accelerators and hosts, computed from catalog facts.

The job's share, M, is in `sci/score/allocation.py`. `accelerators.accelerator_te`, `hosts.host_te`,
`hosts.socket_te`, `hosts.instance_host_te`, `documents.hardware_doc`, `documents.cpu_doc`.
"""
