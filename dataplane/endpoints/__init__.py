"""The gateway's own endpoints (§2.2): operations on every name, authentication on the names of the gateway."""
