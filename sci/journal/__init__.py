"""The records of the journal, and their merge into one job. Imports `base`.

`records.decode` and `records.encode` read and write a line; `merge.merge` makes one job of the
records of all writers; `telemetry.joined` averages how a device ran.
"""
