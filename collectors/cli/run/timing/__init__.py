"""When `gramwatt run` runs its command: `--when-greenest` and `--pause-above`.

`choice.timed` does what the options ask: `greenest` waits for the window of a plan (`waiting`, in
sight of the user), `pausing` pauses and resumes the command's `processes`. `queries` asks a server
or the store.
"""
