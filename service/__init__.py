"""The service: store, API, pages, scheduler and the commands that need them."""
