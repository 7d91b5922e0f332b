"""Attention in forms other than the plain one."""
