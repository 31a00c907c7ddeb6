"""What becomes of journals: `score` makes the document of a job, `send` brings journals to a server
or the store, `live` has the figures of running jobs.
"""
