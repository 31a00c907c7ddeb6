"""Jobs out of a cluster's own Prometheus: dcgm-exporter's boards and Kepler's pods.

`client.py` asks for samples, `mapping.py` says whose they are, `readings.py` makes energy of them,
and `importing.import_range` jobs.
"""
