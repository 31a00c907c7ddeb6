"""Jobs out of a cluster's own Prometheus: dcgm-exporter's boards and Kepler's pods.

`client` asks for samples, `mapping` says whose they are, `readings` makes energy of them, and
`importing.import_range` jobs.
"""
