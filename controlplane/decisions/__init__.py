"""Cached decisions of Access: dropped when a change there must count at once."""
