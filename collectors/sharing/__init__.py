"""Which part of a board or host is this job's when several jobs use it.

`attribution` divides, `locks` finds out who else measures. Imports `gpu`, `journal`, `devices`,
`common`.
"""
