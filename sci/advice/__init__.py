"""Advice: whether other hardware, or another way of running, would emit less for the same work.

`engine.suggest` answers a checked request (`request`), `jobs.for_job` and `jobs.for_month` measured
jobs; `documents.verdict_of` decides the verdict. Layers, lowest first; each may import only earlier
ones, and `estimate` and lower layers of `sci`:

    request; documents; prediction and constraints; work (the request with everything
    resolved); actions; engine; jobs
"""
