"""What a meter asks of a device, and which devices are the job's.

`base` holds the ports and errors that every source implements; `visibility` decides which devices
are billed. Imports `common`.
"""
