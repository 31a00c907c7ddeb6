"""The engine: from journal records, grid intensity and catalog facts to scores and suggestions.

Nothing here does input or output, reads a clock or the environment, or logs; the one exception is
`sci.figures.csv_data`, which reads packaged data files. It imports the standard library and
msgspec only, but for the forecasts of `sci.planning`, which need numpy.
"""
