"""Options of published decoders: widths of heads, biases, rotary positions, local attention."""

from functools import partial

import numpy as np

from numformer.functional import CAUSAL
from numformer.layers import (
    ALiBi, LMHead, LocalAttentionBranch, RotaryPositions, SoftCappedLMHead)
from numformer.layers.blocks.residual import ORDERS
from numformer.parameter import Parameter
from numformer.specifications.pair import floats
from numformer.verify.registry.blocks import C, attention_branch
from numformer.verify.registry.cases import Case
from numformer.verify.registry.transformer import decoder, mha

IDS = np.array([[3, 1, 4], [1, 5, 1]])                                # with repeats
YARN = dict(kind="yarn", factor=4.0, original_length=200)

LAYERS = [
    Case("language model head with a bias",
         lambda rng, dtype: LMHead(Parameter(rng.standard_normal((5, 4)).astype(dtype)),
                                   Parameter(rng.standard_normal(5).astype(dtype))), [(2, 3, 4)]),
    Case("language model head with a bias, soft-capped",
         lambda rng, dtype: SoftCappedLMHead(
             Parameter(rng.standard_normal((5, 4)).astype(dtype)),
             Parameter(rng.standard_normal(5).astype(dtype)), cap=1.5), [(2, 3, 4)]),
    Case("rotary on a part of a head, linear scaling",
         lambda rng, dtype: RotaryPositions(7, d_rotary=4, scaling=dict(kind="linear", factor=2.0)),
         [(2, 2, 4, 7)], lambda: {"start": 3}, wrong=[((floats(2, 2, 4, 4),), ValueError, "D=7")]),
    Case("rotary, YaRN's scaling", lambda rng, dtype: RotaryPositions(6, scaling=YARN),
         [(2, 2, 4, 6)]),
    Case("attention, wide heads, biases of queries, keys and values alone",
         mha(6, 3, d_head=4, n_kv_heads=1, bias=False, qkv_bias=True, query_key_norm=True,
             positions=RotaryPositions(4)), [(2, 3, 6)]),
    Case("attention, narrow heads, a bias of the output alone",
         mha(7, 2, d_head=3, qkv_bias=False, positions=ALiBi(2)), [(2, 3, 7)]),
    Case("attention, rotary on a part of a head, query-key norm",
         mha(8, 2, query_key_norm=True, positions=RotaryPositions(4, d_rotary=2)), [(1, 4, 8)]),
    Case("attention, rotary, YaRN's scaling, query-key norm",
         mha(8, 2, query_key_norm=True, positions=RotaryPositions(4, scaling=YARN)), [(1, 4, 8)]),
    Case("attention, narrow values, a wide output, rotary",
         mha(6, 2, d_head=4, d_value=3, d_output=7, n_kv_heads=1, positions=RotaryPositions(4)),
         [(2, 3, 6)], lambda: {"pattern": CAUSAL},
         wrong=[((floats(2, 3, 7),), ValueError, "C=6")]),
    Case("cross-attention, wide values, a narrow output",
         mha(6, 2, d_context=4, d_value=5, d_output=2), [(2, 3, 6), (2, 4, 4)]),
    *(Case(f"residual branch, {order}, local attention",
           attention_branch(partial(LocalAttentionBranch, window=(1, 0)), order), [(2, 4, C)],
           lambda: {"pattern": CAUSAL},
           wrong=[((floats(2, 4, C + 1),), ValueError, f"C={C}")]) for order in ORDERS),
]

MODELS = [
    Case("decoder, wide heads, biases of queries, keys, values and the head alone",
         decoder(norm="rms_norm", positions="rotary", n_kv_heads=1, d_head=4, bias=False,
                 qkv_bias=True, lm_head_bias=True, tied=False), [], ids=(IDS,)),
    Case("decoder, rotary on a part of a head, Llama 3's scaling",
         decoder(positions="rotary", d_head=4, d_rotary=2, rotary_scaling=dict(
             kind="llama3", factor=4.0, original_length=6)), [], ids=(IDS,)),
    Case("decoder, a sliding window, local and global layers with rotary bases of their own",
         decoder(n_layers=2, positions="rotary", sliding_window=2, local_rotary_base=50.0,
                 layer_types="sliding_attention,full_attention"), [],
         ids=(np.array([[3, 1, 4, 1, 5], [1, 5, 1, 2, 6]]),)),
]
