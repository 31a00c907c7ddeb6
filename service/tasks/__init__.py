"""Periodic work and the one leader that does it.

Imports use cases, `container` and `store`. `scheduler.Scheduler`, `leader.leader_of`.
"""
