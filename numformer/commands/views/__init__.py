"""Verbs that show a run over time."""
