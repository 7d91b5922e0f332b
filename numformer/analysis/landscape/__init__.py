"""The loss around a trained model: directions in the space of its parameters, and the surface."""
