"""Periodic work and the one leader that does it."""
