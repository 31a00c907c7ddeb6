"""How long and how much energy the same work takes on another part, with the evidence's range.

`predict.predict` answers for a part, `measurements.evidence` for another change;
`workload.classify` gives a job's class of work, `own_runs.own_rows` the rows of own jobs.
"""
