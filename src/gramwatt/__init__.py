"""gramwatt: carbon-aware SCI reporting for AI jobs.

`from gramwatt import track` costs the standard library only; everything else loads when used.
"""

__version__ = "0.1.0"
__all__ = ["track"]


def __getattr__(name):  # type: ignore[no-untyped-def]  # typing would cost imports in user processes
    if name == "track":
        from gramwatt.collectors.track import track

        return track
    raise AttributeError(f"module 'gramwatt' has no attribute {name!r}")
