"""Position information, one scheme a file.

`added` is what all schemes share that add a vector to the embedding of every token: `sinusoidal`,
`learned`, `two_dimensional` (patches of an image) and `concatenated`, which appends the vector
instead. `in_attention` is what all schemes share that act inside attention: `rotary` rotates
queries and keys, `alibi` and `relative_bias` change the scores, `shaw` adds vectors to keys and
values. A new scheme is a file of its own, and no other file changes: its class says by which name
configs choose it, and `schemes` finds it. See ADDING_A_POSITION_SCHEME.md.
"""
