"""The energy of the host's processor and memory: RAPL counters, codecarbon's process, or a model.

`meter` chooses per part. Imports `sharing`, `gpu`, `journal` and `common`.
"""
