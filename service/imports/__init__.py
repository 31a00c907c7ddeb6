"""Jobs out of what others measured: codecarbon's files, and a cluster's own Prometheus."""
