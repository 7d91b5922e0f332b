"""Attention: maps, heads, alignments, one query, tiles, forward and backward."""
