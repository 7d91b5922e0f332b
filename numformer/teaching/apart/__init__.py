"""The student's code apart from what judges it: a process, what it may do, and what crosses."""
