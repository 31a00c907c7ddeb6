"""The devices of one job on one node: which they are, when they are read, what their energy is.

`board` is the interface of all vendors, each of which is a file. `sampler` finds, reads and records
the devices of one vendor, `counter` turns readings into joules, `visibility` has the rules of the
variables that name devices, and `shared_board` bills a job's part of a board that several use.
"""
