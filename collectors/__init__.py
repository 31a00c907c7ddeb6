"""Collectors: meters, journal and the client that runs inside other people's training scripts."""
