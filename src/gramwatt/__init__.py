"""gramwatt: carbon-aware SCI reporting for AI jobs.

`from gramwatt import track` costs the standard library only; everything else loads when used.
"""

__version__ = "0.1.0"
__all__ = ["track"]

TYPE_CHECKING = False  # type checkers take it as true; importing typing would cost user processes
if TYPE_CHECKING:
    from gramwatt.collectors.track.track import track


def __getattr__(name: str) -> object:
    if name == "track":
        from gramwatt.collectors.track.track import track

        return track
    if name == "load_ipython_extension":  # %load_ext gramwatt
        import importlib

        notebook = importlib.import_module("gramwatt.collectors.integrations.notebook")
        return notebook.load_ipython_extension
    raise AttributeError(f"module 'gramwatt' has no attribute {name!r}")
