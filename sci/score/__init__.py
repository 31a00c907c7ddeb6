"""The score of one job: SCI = ((E x I) + M) per R, with method, inputs and ranges.

`score.score` makes the document out of a merged job and a `context.ScoreContext`:
`operational.join` gives E and O, `allocation.allocate` M, `functional_unit.unit_scores` C per R,
`location.locate_nodes` zone and PUE.
"""
