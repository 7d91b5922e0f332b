"""Positions: vectors and biases that are added, and rotations."""
