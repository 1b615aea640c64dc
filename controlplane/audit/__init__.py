"""The audit trail: who changed what, when, from where. It is read here; who changes something writes it with that."""
