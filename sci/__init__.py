"""The engine: from journal records, grid intensity and catalog facts to scores and suggestions.

Nothing here does input or output, reads a clock or the environment, or logs; the one exception is
`gramwatt.sci.base.csv_data`, which reads packaged data files. It imports the standard library only.
Subpackages, lowest layer first; each may import only earlier ones:

    base, journal, grid, catalog, embodied, score, analysis, estimate, advice
"""
