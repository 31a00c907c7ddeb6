"""The thin HTTP layer: strict parsing, problem documents, OpenAPI, paging and ETags."""
