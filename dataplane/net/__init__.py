"""Sockets of the downstream side: listener, connection, timers. Bytes come in here and go out here, and nowhere else.

    listener -> connection (what it does, and when it ends) -> answering (what it writes) -> stepped (how it waits)

One task serves one connection, request after request. Bodies never pass through that task: pieces are pushed from the
reading socket to the writing one in the callback that received them, and a side that cannot take more pauses the
other (`pause_reading`). The task waits for the outcome.
"""
