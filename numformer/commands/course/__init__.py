"""Verbs that lead from the lecture notes to the library."""
