"""How long and how much energy the same work takes on another part, with the evidence's range.

`predict` chooses the best evidence: direct measurements, own jobs, a fitted model, or a refusal.
"""
