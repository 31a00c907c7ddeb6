"""Lists, page by page: jobs by filter and order, revisions, intervals and projects.

`filters` says which jobs and in which order; `job_list`, `job_parts`, `projects`, `models` and
`model_runs` answer.
"""

from gramwatt.service.jobs.lists.job_list import jobs_page, list_jobs
from gramwatt.service.jobs.lists.job_parts import intervals_page, revisions_page
from gramwatt.service.jobs.lists.projects import project_names, projects_page

__all__ = [
    "intervals_page",
    "jobs_page",
    "list_jobs",
    "project_names",
    "projects_page",
    "revisions_page",
]
