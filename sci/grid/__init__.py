"""Grid carbon intensity: points over time, annual values, zones and cloud regions.

Imports `base`.
"""
