"""How the data plane becomes processes: one, or several on one port (`GATEWAY_WORKERS`)."""
