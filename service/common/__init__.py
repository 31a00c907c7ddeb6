"""What the rooms share: refusals (`errors`), shapes of answers (`answers`), cursors of lists.

`cursors` cuts lists into pages, `identifiers` finds a job by the beginning of its id, and
`idempotency` keeps answers by request key.
"""
