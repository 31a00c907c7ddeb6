"""The HTTP API under /v1: strict parsing, routes, problem documents, OpenAPI.

No SQL: a route parses, calls one use case and serialises. Each module of routes offers `routes`;
`problems.install` and `openapi.document` serve all of them.
"""
