"""An upload's lines on their way to the store: parsed fast, in batches, and counted.

`lines.checked` gives batches of records; `sequences.Arrived` knows which numbers of a writer have
come; `tally.Tally` counts what became of each line, and makes the answer. Nothing here knows the
database or HTTP.
"""
