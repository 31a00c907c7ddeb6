"""The suggestions themselves: other hardware, sharing, tuning, ways of running, other regions."""
