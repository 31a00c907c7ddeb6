"""From energy segments to the files of the spool, and from the spool to a store or a server.

`intervals` cuts, `writer` writes, `spool` knows the folders, `recovery` closes what died, `sync`
and `uploader` send. Imports `common`.
"""
