"""Layers of image models: convolutions, pooling, attention within windows."""
