"""Texts of users in pictures: what is one letter, which font has it, and what is shown instead."""
