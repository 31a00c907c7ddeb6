"""When and where to run: forecasts of grid intensity, and the best window under them.

`usual` knows the usual day of some zones, by the standard library alone. The rest is the only part
of `sci` that needs numpy: `forecast.Forecaster` predicts the hours of a zone from its history,
`outlook.expected_hours` joins a provider's forecast with ours, `windows` finds the best hours in
them, and `plan.make_plan` answers a request.
"""
