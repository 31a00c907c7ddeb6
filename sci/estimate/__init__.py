"""Estimates: scores without measuring.

`request.parse_estimate_request` checks a request, `estimate.estimate` answers it; `model` has what
is assumed where the request says nothing.
"""
