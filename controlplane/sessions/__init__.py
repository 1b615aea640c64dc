"""Sessions as operators see them: whose there are, and how they are ended. Never a session's id."""
