"""Attention and its scores."""
