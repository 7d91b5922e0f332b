"""Diagrams of models and layers."""
