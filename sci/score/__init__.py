"""The score of a job: E, O, M and R, each with a range.

`score.score` names the six steps: `identify.identify` (hardware, place), `operational.join` (energy
with intensity), `allocation.allocate`, `functional_unit.divide`, `assess.assess` and the document.
"""
