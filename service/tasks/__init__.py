"""Periodic work: the tasks, the one leader that does them, and their runs.

`table.TASKS`, `scheduler.Scheduler`, `leader.leader_of`, `leader.Heartbeat`, `runs.schedules`.
"""
