"""The shared state: what its operations cost in memory, on Redis and on Postgres, beside the servers' own benchmarks.

    python -m tests.bench state    operations one by one, 32 and 128 at once, and whole requests over each store
    python -m tests.bench scale    100 000 sessions and 1 000 000 budgets: memory, expiry, sweep

This process, which is the gateway's side, has one core; the servers and their own benchmarks share the other.
"""
