"""Disclosure packs: one file with a score, every input of it and the forms made of it.

`archive` writes and strictly reads the file, `contents` names its files and makes those that
follow from a score, `collect.make_pack` makes the pack of a job, a model or a month out of the
store, and `verify.verify` computes everything in a pack again, without a store. `signing` signs
packs.
"""
