"""Diagrams drawn from models and layers: architectures, and the computation of one layer."""
