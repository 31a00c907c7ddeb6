"""What `gramwatt doctor` looks at: one file for GPUs, other vendors, the host, and the places."""
