"""Whoever asks: as whom a token acts."""
