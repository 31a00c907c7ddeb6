"""The journal that meters write, its spool (a folder a job and node), and what becomes of it.

`intervals.Ledger` cuts energy, `writer.Journal` writes lines, `spool.folders` finds the folders,
`recovery.close_dead` closes those of dead meters. `score` makes the document of a job, `send`
brings journals to a server or the store, `live` has the figures of running jobs.
"""
