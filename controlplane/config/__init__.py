"""The route table's revisions: read, judge, write, roll back (§3.4, §12.7).

    body -> judged in a thread (the gateway's own loading) -> protected routes -> compare-and-swap with its audit entry

A revision is written whole or not at all, and never changed. Of any number of writers that read one revision, one
writes the next.
"""
