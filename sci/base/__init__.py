"""The vocabulary of the engine: quantities with ranges, units, errors, notices, document shapes.

Imports nothing else of the product.
"""
