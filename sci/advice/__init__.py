"""Advice: whether other hardware, or another way of running, would emit less for the same work.

`engine.suggest` answers a checked request (`suggest_request`), `jobs.for_job` and `jobs.for_month`
measured jobs; `documents.verdict_of` decides the verdict. `work` is the request with everything
resolved.
"""
