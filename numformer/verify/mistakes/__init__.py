"""Known mistakes, made on purpose: whole backwards, wrong in one thing, each beside the sentence that says in which.

A mistake reads `(dy, *arguments, **options)` and returns the gradients. A module's MISTAKES gives those of each function.
"""
