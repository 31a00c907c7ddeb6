"""What the rooms share: refusals (`errors`), shapes of answers (`answers`), and requests.

`requests` has what callers send, with the cursors that cut lists into pages.
"""
