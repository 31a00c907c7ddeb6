"""The suggestions themselves, each built for a resolved job (`sci.advice.work.Work`).

`hardware.compare` for other hardware; `present` keeps what is there, or says where the job would
fit; `capacity` for counts, idle time and regions, `settings` for the same parts set otherwise;
`texts` has those without a figure, `notices` the notices. `ownership.judge` gives the verdict.
"""
