"""What a cluster has measured without gramwatt's meter, as journal records of jobs.

`sacct.import_sacct` reads Slurm's accounting.
"""
