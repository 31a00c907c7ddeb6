"""What the exports share: their error, and YAML that readers of YAML 1.1 and 1.2 take alike."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import yaml

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.sci.figures.notices import CODES

Data = Mapping[str, "Data"] | Sequence["Data"] | str | float | int | bool | None

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_/-]+")
"""A text that needs no quotes, unless it is a word such as `yes` or `null`. Others may be numbers
or dates to some reader: `1e3` is a text in YAML 1.1 and a number in 1.2."""
_NO_FOLD = 2**31 - 1
"""[characters] Long texts stay on one line."""


class ExportError(GramwattError, ValueError):
    """The job cannot be written in this format; the message names what is missing."""

    code = "not-exportable"


def caution(document: JobDoc) -> str:
    """Return a warning for readings of a synthetic meter, empty for readings of
    hardware.
    """
    synthetic = any(notice.code == "meter-synthetic" for notice in document.notices)
    return CODES["meter-synthetic"] if synthetic else ""


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        """Write an object that occurs twice in full both times: not every reader knows anchors."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if _WORD.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


def _number(dumper: _Dumper, number: float) -> yaml.ScalarNode:
    if not math.isfinite(number):
        raise ValueError(f"not a finite number: {number}")
    return dumper.represent_float(number)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _number)


def to_yaml(data: Mapping[str, Data]) -> str:
    """Return the mapping as a YAML document; raises ValueError for NaN and infinity."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_NO_FOLD)
    return text
