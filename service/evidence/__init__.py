"""Evidence bundles: a score or a month with everything that it is computed from, in one ZIP file.

`export.export` writes the bundle of a job or a month out of the store. `verify.verify` reads one
without a store: it checks sums and signature, scores the jobs again with the installed engine, sums
the month again, and names what differs.
"""
