"""The shared state on Postgres (§12.5).

    PostgresState ── a domain each: sessions, decisions, budgets, coordination, route table
        └── Pool: connections that work through jobs; a lane bundles the jobs of one kind

Each operation is one call of a function that the migrations made, so it is one transaction of the server. What is asked
for while the connections are busy waits, a bounded number and for a bounded time, and travels as one statement. A job
belongs to a connection until it has ended, whatever becomes of who asked, so a cancelled request leaves no connection
in the middle of something.

Concurrency: one event loop. Failure: every failure of the server is `StateUnavailable`; a server that answers nothing
costs its connections, and nothing is sent until a new one was made. Expired rows are never answered; a sweep removes
them.
"""
