"""The pages for people, rendered on the server."""
