"""The journal that meters write, and its spool: one folder a job and node.

`writer.Writer` makes a meter's file, `spool.folders` are the folders, and `recovery.close_dead`
closes those of dead meters.
"""
