"""The routes: parse, call one use case, serialise."""
