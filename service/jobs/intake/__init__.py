"""How records reach the store: uploads, journals of this machine, and meters that still write.

`ingest.ingest` takes an upload, `local_spool` and `open_journals` read folders of this machine.
`lines.checked` gives batches of records, in which `intervals.Intervals` holds the intervals in
columns; `sequences.Arrived` knows which numbers of a writer have come, `tally.Tally` counts what
became of each line and makes the answer. Imports `jobs`, `access`.
"""
