"""What keeps the service itself in order, for periodic tasks and metrics.

`upkeep` closes and scores what nobody else did, `listening` records when a server listened,
`backups` writes daily backups, `backfill` scores jobs again when intensity of their time arrives,
`factors` when what scores are made of changes, `retention` deletes old intervals, `settings` shows
the settings, `status` how the store stands.
"""
