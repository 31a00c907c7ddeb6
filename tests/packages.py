"""Reading the product's own source: files, modules and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sci", "collectors", "reports", "service")


def sources(*packages: str) -> list[Path]:
    """Every Python file of the given packages, all four by default."""
    found = [path for name in packages or PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    assert found, "no source found: the tests look in the wrong place"
    return found


def module_name(path: Path) -> str:
    """`sci/figures/units.py` -> `gramwatt.sci.figures.units`."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(("gramwatt", *parts))


@cache
def tree(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text("utf-8"), str(path))


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports anywhere, `from a import b` as both `a` and `a.b`."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
