"""The records of the journal, corrections of them, and their merge into one job.

`records.decode` and `records.encode` read and write a line; `merge.merge` makes one job of the
records of all writers; `corrections.corrected` applies what was declared afterwards;
`records.joined` averages how a device ran.
"""
