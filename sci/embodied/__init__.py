"""Embodied carbon TE of accelerators and hosts, computed from catalog facts.

Imports `catalog` and `base`. `accelerators.accelerator_te`, `hosts.host_te`, `hosts.socket_te`,
`hosts.instance_host_te`, `documents.hardware_doc` and `documents.cpu_doc`.
"""
