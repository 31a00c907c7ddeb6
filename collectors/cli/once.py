"""A command that refuses an option that is given twice, of which the last alone would count."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption


class OnceCommand(TyperCommand):
    """A command whose options are given once, but for those that may be repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; raises typer.BadParameter for an option that is given twice."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(order).items():
            if not isinstance(option, TyperOption) or option.multiple or option.is_flag:
                continue
            if times > 1 and not option.count:
                raise typer.BadParameter(f"given {times} times, may be given once", ctx, option)
        return super().parse_args(ctx, args)
