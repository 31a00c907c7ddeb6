"""`gramwatt run`: what it checks, how it measures a command, and what it prints at the end.

`command.run_command` orders it: `budget` and `greenest` before the command starts, then
`measure.measure`, which passes signals on, counts (`counts`) and names what is left behind.
"""
