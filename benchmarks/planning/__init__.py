"""Plans of `gramwatt plan` replayed on hourly traces of real grids."""
