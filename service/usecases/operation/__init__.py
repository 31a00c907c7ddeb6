"""What keeps the service itself in order, for periodic tasks and metrics.

`upkeep` closes and scores what nobody else did, `listening` records when a server listened,
`backups` writes daily backups, `backfill` scores jobs again when intensity of their time arrives,
`status` says how the store stands. Imports `score_job` and below.
"""
