"""Where the numbers behind the suggestions come from, and how good the answers are.

`groups` reads the published measurements, `fit` fits the ranking's numbers with sources kept out,
`score` and `ask` ask the ranking and the whole engine about work that was measured, `effects` has
what other settings changed, `report` makes the tables of the package and the accuracy page.
"""
