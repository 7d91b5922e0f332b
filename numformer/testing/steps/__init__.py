"""Optimizers and schedules over several steps against ours, and the mistake that explains a
difference: `match_steps` compares, `optimizer_rules` and `schedule_rules` are the rules with one
line changed.
"""
