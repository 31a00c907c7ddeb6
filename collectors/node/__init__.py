"""The meter of a whole node: its boards and host once, divided among the jobs that run there.

`agent.NodeAgent` orders the work, `owners` says whose a process is, `pods` asks the kubelet,
`division` divides what is read, `books` has a journal for each job, `run` is the process.
"""
