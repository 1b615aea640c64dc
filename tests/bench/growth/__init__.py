"""What things cost as there are more of them: routes, connections, sessions, replicas. `python -m tests.bench growth`.

    routes       the table's load and memory, a match, a whole request      (routes.py)
    connections  a request among many open connections, beside nginx's      (connections.py)
    sessions     reading one among many, in memory and on each server       (sessions.py)
    replicas     what one more asks of the store, idle and with load        (replicas.py)

CPU time and counts, not rates: they mean the same on a machine that others use too.
"""

GROWTH = ("routes", "connections", "sessions", "replicas")
"""What can be measured alone."""
