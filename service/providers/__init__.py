"""Grid intensity from its publishers: one file each, behind the interface of `base`.

`chain.providers_of` gives those that are configured for a zone, in order. Nothing here knows the
store: `service.intensity.refresh` decides what is fetched, and keeps it.
"""
