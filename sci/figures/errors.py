"""Exceptions of the engine.

    GramwattError
    ├── QuantityError       an invalid figure: NaN, low above value, units that do not match
    ├── RecordError         a journal line that cannot be accepted
    ├── LookupFailed        a name that the catalog does not know; has the close matches
    │   └── AmbiguousName   a name that stands for several entries; has the choices
    ├── ScoreError          inputs for which no score or estimate is defined, such as R <= 0
    └── StoreError          a store of jobs that cannot be used, such as one of a newer release

Each has a stable code and a message that says what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence


class GramwattError(Exception):
    """Root of all errors that the product raises; `code` is stable across releases."""

    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code

    @property
    def names(self) -> dict[str, list[str]]:
        """Return names to use instead, as members of an answer in JSON: `choices` or `close`."""
        return {}


class QuantityError(GramwattError, ValueError):
    """A figure, or an operation on figures, that is not defined."""

    code = "bad-quantity"


class RecordError(GramwattError, ValueError):
    """A journal line that cannot be accepted; `field` is the one that is refused, if one is."""

    code = "bad-record"

    def __init__(self, message: str, *, code: str | None = None, field: str | None = None) -> None:
        super().__init__(message, code=code)
        self.field = field


class ScoreError(GramwattError, ValueError):
    """Inputs for which no score or estimate is defined, such as R <= 0."""

    code = "bad-score-input"


class StoreError(GramwattError):
    """A store of jobs that cannot be used; journals stay in the spool until it can."""

    code = "store-unusable"


class LookupFailed(GramwattError, LookupError):
    """A name that the catalog does not know; `close` lists similar names, best first."""

    code = "unknown-name"

    def __init__(
        self, what: str, name: str, close: Sequence[str] = (), reason: str | None = None
    ) -> None:
        """Compose the message; `reason` says what the name means instead, where that is known."""
        self.what, self.name, self.close, self.reason = what, name, tuple(close), reason
        hint = f"; close matches: {', '.join(self.close)}" if self.close else ""
        hint = f": {reason}" if reason else hint
        super().__init__(f"unknown {what} {name!r}{hint}", code=f"unknown-{what}")

    @property
    def names(self) -> dict[str, list[str]]:
        """Return the close names."""
        return {"close": list(self.close)}


class AmbiguousName(LookupFailed):
    """A name that stands for several catalog entries; `choices` lists their ids."""

    code = "ambiguous-name"

    def __init__(self, what: str, name: str, choices: Sequence[str]) -> None:
        self.choices = tuple(choices)
        super().__init__(what, name, choices)
        self.code = f"ambiguous-{what}"
        self.message = f"{what} {name!r} is ambiguous; say which: {', '.join(self.choices)}"
        self.args = (self.message,)

    @property
    def names(self) -> dict[str, list[str]]:
        """Return the entries to choose from."""
        return {"choices": list(self.choices)}
