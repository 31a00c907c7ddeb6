"""The list of models, and the sums over one model's jobs."""

from __future__ import annotations

from typing import Annotated

from flask import Response
from msgspec import Meta

from gramwatt.service.api.access import Access
from gramwatt.service.api.support import service
from gramwatt.service.common.requests import JobList, Page
from gramwatt.service.jobs.lists import jobs_page
from gramwatt.service.jobs.models import models_page
from gramwatt.service.months.overview import model_totals
from gramwatt.service.pages.frame import PER_PAGE, page, query, route

PERSONAS = {"provider": "Making the model", "consumer": "Using the model", "other": "Other work"}


class ModelsQuery(Page, frozen=True, kw_only=True):
    """Which page of the list, or one model."""

    model: Annotated[str, Meta(min_length=1, max_length=512, pattern="^[^\\x00]+$")] | None = None


@route("/models", Access.READ)
def models() -> Response:
    """Return every model with its jobs; of one, the sums of making it and of using it, apart."""
    chosen = query(ModelsQuery)
    if chosen.model is None:
        rows, following = models_page(service(), PER_PAGE, chosen.cursor)
        return page(
            "models.html",
            models=rows,
            totals=model_totals(service()),
            personas=PERSONAS,
            chosen=chosen,
            next_cursor=following,
        )
    answer = jobs_page(service(), JobList(limit=1, model_id=chosen.model))
    return page("model.html", model=answer.model, personas=PERSONAS)
