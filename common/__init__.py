"""What both planes share: the route table, identities, state ports, settings and telemetry.

This package imports neither plane (`dataplane -> common <- controlplane`).
"""
