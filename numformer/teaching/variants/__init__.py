"""Variants: what students get for a term, without seed and solution, and the key to grade it.

`key` is what the teacher keeps, `folders` writes both folders, and `written` are the answers in
words, with the points of each step.
"""
