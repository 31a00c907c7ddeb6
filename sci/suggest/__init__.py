"""What would emit less for the same work: hardware, settings, place and time in one list.

`suggest.suggest` answers a request, `jobs.for_job` a job that ran. The probability of each row
comes from `ranking` (data sheets) and `evidence` (measured runs), after `facts` have left out what
cannot run the job.
"""
