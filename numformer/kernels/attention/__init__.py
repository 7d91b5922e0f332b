"""Tiled attention, compiled."""
