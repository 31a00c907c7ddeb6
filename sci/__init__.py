"""The engine: SCI arithmetic, vocabulary and catalog.

Nothing in this package does I/O, reads a clock or the environment, or logs; the one exception is
`gramwatt.sci.base.csv_data`, which reads the data files packaged beside it for the catalog.
"""
