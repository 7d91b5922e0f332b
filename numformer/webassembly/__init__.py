"""Matrix products of a browser's NumPy, compiled to WebAssembly with vectors of four numbers.

NumPy has no BLAS there: its products are three plain loops. `product.wat` is the loop that stands
in for them, `assembler` makes bytes of it, and `numpy_loop` gives them to NumPy, so that every
``@`` uses them. They add in the same order: the numbers are the same, to the bit.
"""
