"""What a person or a tool asks before a run: better hardware, time and place.

`suggest` answers for a stored job or a described one, `plan` for a run like one that is stored.
"""
