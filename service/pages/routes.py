"""Every page: the blueprint of `frame`, with the views that these modules put on it."""

from gramwatt.service.pages import (  # noqa: F401
    catalog,
    intensity,
    jobs,
    login,
    models,
    operation,
    overview,
    planner,
    reports,
)
from gramwatt.service.pages.frame import pages as pages
