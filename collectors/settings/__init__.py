"""What the other subpackages use: clock, configuration, catalog, identity, private files.

`identity` and `platform` run inside the training process and need the standard library only.
`clock.Timeline`, `config.resolve`, `catalogs.user_catalog`, `launches.job_id`, `files.opener`,
`platform.refused`.
"""
