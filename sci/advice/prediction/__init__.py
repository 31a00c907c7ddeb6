"""How long and how much energy the same work takes on another part, with the evidence's range.

`predict.predict` answers for a part, `evidence.evidence` for another change; `workload.classify`
says which class of work a job is, `calibration.own_rows` what own jobs teach. Imports the request
and the answer's words of `sci.advice`, and the rooms of `sci` below it.
"""
