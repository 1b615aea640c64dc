"""Who calls, and how an upstream is told (§7.4).

    principal  what a credential said  ->  headers  what is written of it  ->  signature  that it was the gateway

Values are made once and both written and signed, so the two cannot differ. No clock and no I/O; a signer belongs to one
event loop. A subject that cannot be written unchanged is an error, never another subject.
"""
