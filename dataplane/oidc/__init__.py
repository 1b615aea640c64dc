"""The OpenID Connect provider, as seen by a client of it: discovery, keys, bearer tokens, the login (§5.2, §5.4).

    discovery -> keys -> signature -> claims        a bearer token, an ID token
        |                               |
        +------ login: authorization request, code exchange, ID token

`http` is the only module that opens a connection, and only to addresses that come from the configured issuer and its
own metadata: nothing that stands in a token is ever fetched. `claims` and most of `keys`, `tokens` and `login` are
plain functions of values and a time.

Failure: nothing is fetched at start, so a provider that is away never keeps the process from serving. What was fetched
is kept and serves on for a bounded time (`kept`); after that `ProviderUnavailable` is raised, which is answered 503 and
never mistaken for a bad credential. The next request after the provider is back finds it.

Concurrency: one loop. Any number of requests that need the same document share one fetch.
"""
