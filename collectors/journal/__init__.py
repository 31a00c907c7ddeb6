"""From energy segments to the files of the spool, and from the spool to a store or a server.

`intervals.Ledger` cuts energy, `writer.Journal` writes lines, `spool.folders` finds the folders,
`recovery.close_dead` closes journals of dead processes, `sync.sync` and `uploader.upload` send;
`ending.lines` says what a job came to, `live` and `so_far` what it has come to.
"""
