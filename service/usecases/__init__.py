"""What the service does, one function per request or periodic task; no HTTP in here."""
