"""What passes the gateway, in both directions (§7, §11.1).

    head, peer      -> context           who calls, under which scheme and host
    head, identity  -> request_headers   what the upstream gets, for each attempt; target says where
    response head   -> response_headers  what the caller gets; location keeps internal addresses inside
                       policy            the one list of names that never pass
                       cookies           the one reading of a Cookie header

Plain functions on values: no clock, no I/O, no state but bounded memos of pure functions. They run on the event loop of
one worker. What cannot be trusted is dropped; what cannot be written without changing its meaning fails the request.
"""
