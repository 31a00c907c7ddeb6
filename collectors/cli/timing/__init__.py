"""When `gramwatt run` runs its command: `--when-greenest` and `--pause-above`.

`asking` questions a server or the store, `greenest` waits for the window of a plan (`waiting`, in
sight of the user), `times` reads times of the command line. Imports `cli.run` for its errors.
"""
