"""What outlives a request and is to be shared by replicas: sessions, decisions, counts of requests (§12.5).

    ports: what the planes ask, in their words -> memory: in this process
    budgets: counts, their port and their table

`open` finds the implementation behind a URL. Each method is one operation, which happens whole or not at all. A state
that does not answer raises `StateUnavailable`: never an empty answer, never a guess.
"""
