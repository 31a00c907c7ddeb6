"""The journal's records and how those of many writers become one job.

`records.decode` reads a line, `merge.merge` counts every device once. Imports `base`.
"""
