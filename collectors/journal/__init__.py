"""The journal that meters write, and its spool: one folder a job and node.

`intervals.Ledger` cuts energy, `writer.Journal` writes lines, `spool.folders` finds the folders,
`recovery.close_dead` closes those of dead meters.
"""
