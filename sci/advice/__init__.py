"""Advice: whether other hardware, or another way of running, would emit less for the same work.

`engine.suggest` answers a checked request (`request`), `jobs.for_job` and `jobs.for_month` measured
jobs. Ground up: `request` and `documents`, `prediction` and `constraints`, `work` (the request with
everything resolved), `actions`, `engine`, `jobs`. Imports `estimate` and what lies below it.
"""
