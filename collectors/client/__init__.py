"""What runs inside the training process: `track`, its session, and the connection to the meter.

Standard library only, since every import here is paid by somebody's training job. Imports
`common`. Public: `track.track`; for the command also `client.Client`, `launch.job_document` and
`messages.report`.
"""
