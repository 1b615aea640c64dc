"""The shared state on Redis 7: one server, a cluster, or a master that Sentinel names (§12.5).

    RedisState ── a domain each: sessions, decisions, budgets, coordination, route table
        └── Servers: which server holds a key ── OneServer (by address or Sentinel) │ Cluster (a link to each master)
              └── Link: one connection, kept open in the background; commands of one turn of the loop leave together

Each operation is one command or one script, so it happens whole or not at all. Nothing is queued for a server that is
not connected: the operation fails at once. What was sent and not answered in time breaks the connection, because later
answers could not be told from earlier ones; everything that waits on it fails with it, and a new one is made.

Concurrency: one event loop. A caller that is cancelled leaves its answer to be thrown away. Failure: every failure is
`StateUnavailable`. A value that this software did not write is counted as `foreign` and treated as absent.
"""
