"""The HTTP API under /v1: strict parsing, routes, problem documents, OpenAPI. No SQL.

A route parses, calls one use case and serialises.
"""
