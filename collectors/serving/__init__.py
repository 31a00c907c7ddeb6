"""R out of the counters of a server: the addresses to poll, what is read there, what it counts.

`servers` makes the addresses of options, `Poller` reads them in threads, `ServerCounts` turns what
was read into count lines.
"""
