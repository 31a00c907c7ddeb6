"""Periodic work and the one leader that does it.

May import use cases and store. `scheduler.Scheduler`, `leader.leader_of`.
"""
