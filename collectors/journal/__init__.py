"""From energy segments to the files of the spool, and from the spool to a store or a server.

`intervals.Ledger` cuts energy, `writer.Journal` writes lines, `spool.folders` finds the folders,
`counts` adds up what a client counted, `recovery.close_dead` closes journals of dead processes,
`sync.sync` and `uploader.upload` send.
"""
