"""Puts every page on the app."""

from __future__ import annotations

from flask import Flask

from gramwatt.service.pages import (
    catalog,
    frame,
    intensity,
    jobs,
    login,
    models,
    operation,
    overview,
    planner,
    reports,
)


def install(app: Flask) -> None:
    """Put the pages, their filters and the pages of problems on the app."""
    for part in (
        frame,
        login,
        overview,
        jobs,
        models,
        reports,
        planner,
        intensity,
        catalog,
        operation,
    ):
        part.install(app)
