"""Facts about hardware, cloud instances, services and regions, by name; the data lie in `data/`.

It computes nothing from them. `catalog.load_catalog` gives the packaged catalog, `catalog.Catalog`
has every look-up, `overlay.parse_overlay` reads a user's overlay, and `parameters.parameters` and
`parameters.lifetime_years` the parameters of the embodied model.
"""
