"""The engine: from journal records, grid intensity and catalog facts to scores and suggestions.

Nothing here does input or output, reads a clock or the environment, or logs; the one exception is
`gramwatt.sci.base.csv_data`, which reads packaged data files. It imports the standard library only.
Its rooms, ground up: base, journal, grid, catalog, embodied, score, analysis, estimate, advice.
"""
