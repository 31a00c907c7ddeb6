"""A whole team's service under one seed: clients, spools, network, server, store and clocks.

Everything that is shipped runs as it is: journal, spool, sync, uploader, Flask app, use cases and
SQLite store. Only what surrounds them is made up, and one `random.Random(seed)` decides it: when a
process dies, what the disk and the network do, what the clocks say. Death is an exception that no
code catches; then the objects are thrown away and new ones start over the same disk.

- `world`: time, the queue of events, the trace
- `surroundings`: what production code sees instead of `os`, `time` and the machine
- `client`: one process that is measured on a machine, and its meters; `sync` runs
- `network`, `server`: what happens to requests, and the process that answers them; `wsgi`: one
  request to its app
- `ledger`: independent bookkeeping; `invariants`: what must hold, by the ledger
- `story`: draws a seed's story and tells it; `planted`: bugs that it must catch
"""
