"""How records reach the store: uploads, journals of this machine, and meters that still write.

`ingest.ingest` takes an upload, `local_spool` and `open_journals` read folders of this machine.
`lines.batches` gives the records of lines in batches, `lines.Tally` counts what became of each,
and `sequences.Arrived` knows which numbers of a writer have come. Imports `jobs`, `access`.
"""
