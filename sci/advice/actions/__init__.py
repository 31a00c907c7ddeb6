"""The suggestions themselves, each built for a resolved job (`sci.advice.work.Work`).

`swap.compare` for other hardware, `feasible` where there is no present run, `present.keep`,
`regions.other_regions`; `tuning`, `running` and `sharing` hold the other actions; `warnings` and
`rules.policies` make the notices.
"""
