"""Whole layers and models against ours: `match` compares, `pairs` finds which weight is which.

`ours`, `torch_module`, `jax_module` and `numpy_layer` run the four kinds in one way: see `Run`.
"""
