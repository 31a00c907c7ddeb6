"""Grid carbon intensity: points over time, and annual values of zones.

`intensity.IntensityTrack` joins points with energy, `zones.AnnualIntensity` is the look-up of the
packaged annual values, `zones.Zones` has them by zone and country.
"""
