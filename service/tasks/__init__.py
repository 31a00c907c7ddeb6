"""Periodic work: the tasks, the one leader that does them, and their runs.

Imports use cases, `container` and `store`. `table.TASKS`, `scheduler.Scheduler`,
`leader.leader_of`, `runs.schedules`, `heartbeat.Heartbeat`.
"""
