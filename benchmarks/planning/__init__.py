"""Plans of `gramwatt plan` on hourly traces of real grids."""
