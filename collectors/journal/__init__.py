"""From energy segments to the files of the spool, and from the spool to a store or a server.

`intervals` cuts energy, `writer` writes lines, `spool` knows the folders, `counts` adds up what a
client counted, `recovery` closes journals of dead processes, `sync` and `uploader` send. Imports
`common`. Public: `intervals.Ledger`, `writer.Journal`, `spool.folders`, `recovery.close_dead`,
`sync.sync`.
"""
