"""The route table: a JSON document that is validated whole, compiled to frozen values, and matched by an index.

    bytes -> document (strict JSON) -> shape (pydantic models) -> compile (one route) -> checks (routes together)
          -> RouteTable -> match(host, path, method)

Loading reports every problem with its place and yields nothing when there is one. A `RouteTable` never changes, so any
number of requests and threads read it without a lock; a new one replaces it whole. Matching does no I/O and raises
nothing but `AmbiguousPath`.
"""
