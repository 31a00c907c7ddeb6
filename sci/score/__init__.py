"""The score of one job: SCI = ((E x I) + M) per R, with everything needed to defend it.

`score.score` is the entry; `operational` computes O, `allocation` M, `functional_unit` R. Imports
`embodied`, `catalog`, `grid`, `journal` and `base`.
"""
