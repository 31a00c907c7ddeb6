"""When and where to run: forecasts of grid intensity, and the best window under them.

The only part of `sci` that needs numpy; commands without the service do without it.
`forecast.Forecaster` predicts the hours of a zone from its history, `outlook.expected_hours` joins
a provider's forecast with ours, `windows` finds the best hours in them, and `plan.make_plan`
answers a request.
"""
