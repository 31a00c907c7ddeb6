"""Deleting a project, or a person's name, from everything that the store has.

`erasure` has the use cases with their records, and erases again what a restored backup still has;
`projects` and `people` go through the rows, `redaction` through documents.
"""
