"""Layers of image models: convolutions, pooling, attention in windows and to a few points."""
