"""What runs inside the training process: `track`, its session, and the connection to the meter.

Standard library only, since every import costs start-up time of the training process. The command
uses `session.Client`, `launch.ask_sync` and `messages.print_message`.
"""
