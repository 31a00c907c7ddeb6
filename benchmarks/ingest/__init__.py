"""How fast a real server takes intervals in over HTTP, beside the database alone, in one run."""
