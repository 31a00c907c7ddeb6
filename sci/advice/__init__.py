"""Advice: whether other hardware, or another way of running, would emit less for the same work.

`suggest` answers a question, `for_job` and `for_month` measured jobs; `row_of` makes a job a
calibration row of the organisation's own.
"""

from gramwatt.sci.advice.documents import AdviceDoc, SuggestionDoc
from gramwatt.sci.advice.engine import suggest
from gramwatt.sci.advice.jobs import for_job, for_month, report_lines
from gramwatt.sci.advice.prediction.calibration import OwnRow, own_rows, row_of, rows_of
from gramwatt.sci.advice.request import SuggestQuestion, parse_suggestion

__all__ = [
    "AdviceDoc",
    "OwnRow",
    "SuggestQuestion",
    "SuggestionDoc",
    "for_job",
    "for_month",
    "own_rows",
    "parse_suggestion",
    "report_lines",
    "row_of",
    "rows_of",
    "suggest",
]
