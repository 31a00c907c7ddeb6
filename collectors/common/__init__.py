"""What the other subpackages use: clock, configuration, catalog, identity, private files.

Imports `sci` only; `identity` and `platform` run inside the training process and need the standard
library only. Public: `clock.Timeline`, `config.resolve`, `catalogs.user_catalog` and
`place_problems`, `identity.job_id` and `node_id`, `files.opener`, `platform.refused`.
"""
