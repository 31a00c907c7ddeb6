"""Estimates: carbon without measuring, and the ranking of devices.

`request.parse_estimate_request` checks a request, `answer.estimates` answers it for each device
that it names, `estimate.estimate` for one; `model` and `serving` have what is assumed where the
request says nothing, `ranking` how devices compare.
"""
