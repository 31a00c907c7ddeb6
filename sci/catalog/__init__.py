"""Facts about hardware, instances, services, regions and zones, by name, out of `data/`.

`catalog.load_catalog` gives the one immutable catalog. It knows no model. Imports `grid` and
`base`.
"""
