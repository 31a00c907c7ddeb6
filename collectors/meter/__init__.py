"""The meter process: one for a job and node, never inside the job.

`main.main` runs the loop and `job_meter.JobMeter` orders the work: `device_manager` knows
the devices.
"""
