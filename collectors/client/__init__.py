"""What runs inside the training process: `track`, its session, and the channel to the meter.

Standard library only, since every import here is paid by somebody's training job. The public
entry is `track.track`. Imports `common`.
"""
