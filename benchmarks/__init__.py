"""Measurements of the product itself, and the research behind its tables; none of it is shipped."""
