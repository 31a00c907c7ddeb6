"""When and where to run: forecasts of grid intensity, and the best window under them.

The only part of `sci` that needs numpy; commands without the service do without it.
`forecast.Forecaster` predicts the hours of a zone from its history, `issued` judges forecasts by
what came, `outlook` joins a provider's with ours, `windows` finds the best hours in a forecast,
`replay.replay` says what plans of the past would have saved, `plan.plan_and_regret` answers a
request.
"""
