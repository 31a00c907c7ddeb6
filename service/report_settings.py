"""The settings of reports: who answers for them, where they go, and what years are held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gramwatt.sci.month.documents import MarketFactor, StatementDoc


@dataclass(frozen=True, slots=True)
class S3Access:
    """An address `https://host/bucket/prefix`, and the key that may write there."""

    url: str
    key_id: str
    secret: str = field(repr=False)
    region: str = "us-east-1"
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    """Who answers for monthly reports, and where they go: docs/reports.md describes the variables.

    `folder`, `mail_to` and `s3` are where finished reports are delivered to. `projects` have
    reports of their own beside the one of all; EACH_PROJECT stands for every project.
    Figures are printed with the `decimal_mark`. Years are compared with the `base_year`, and with
    `targets` [kgCO2e] by year. `market_factors` are those of the memo, by zone.
    """

    organisation: str | None = None
    accountable: str | None = None
    contact: str | None = None
    folder: Path | None = None
    mail_to: tuple[str, ...] = ()
    s3: S3Access | None = None
    projects: frozenset[str] = frozenset()
    base_year: int | None = None
    decimal_mark: Literal[".", ","] = "."
    targets: tuple[tuple[int, float], ...] = ()
    market_factors: Mapping[str, MarketFactor] = field(default_factory=dict)

    def statement(self) -> StatementDoc:
        """Return who answers for the report."""
        return StatementDoc(
            organisation=self.organisation,
            accountable=self.accountable,
            contact=self.contact,
        )
