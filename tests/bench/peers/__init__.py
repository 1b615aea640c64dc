"""The programs that the gateway is compared with, and those that it needs around it; each runs as its own process."""
