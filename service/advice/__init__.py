"""What a person or a tool asks before a run: better hardware, time and place.

`suggest.answer` answers a request, `suggest.answer_for_document` for a job's document.
"""
