"""What rules a part out: memory (`memory`), software and use (`support`), `availability`.

Imports the request of `sci.advice` and the catalog.
"""
