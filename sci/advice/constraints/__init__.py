"""What rules a part out: memory (`memory`), software and use (`support`), `availability`."""
