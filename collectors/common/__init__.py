"""What every other room of the collectors uses: clocks, identity, private files, configuration.

Imports nothing else of the collectors. Start with `config.resolve` and `clock.Clock`.
"""
