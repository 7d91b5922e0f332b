"""Attention layers whose cost grows more slowly than T x T: linear, low-rank and sparse."""
