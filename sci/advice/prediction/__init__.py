"""How long and how much energy the same work takes on another part, with the evidence's range.

`predict.predict` answers for a part, `evidence.evidence` for another change; `workload.classify`
says which class of work a job is, `calibration.own_rows` what own jobs teach. Imports
`request` and `documents` of `sci.advice`, `catalog` and lower layers of `sci`.
"""
