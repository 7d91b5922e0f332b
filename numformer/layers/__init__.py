"""Layers: classes that own parameters and call the functions of `numformer.functional`.

Every layer keeps the contract of `numformer.parameter.Layer`: `forward` returns the output and what
`backward` needs. Start with `linear`, then `feedforward`, `attention.attention`,
`attention.self_attention`, `attention.multi_head` and `blocks.residual`.
"""

from numformer.layers.adapters import (
    adapter_state, add_adapters, base_digest, load_adapters, merged)
from numformer.layers.adaptive_embedding import AdaptiveEmbedding
from numformer.layers.adaptive_softmax import AdaptiveSoftmax
from numformer.layers.attention.attention import Attention
from numformer.layers.attention.fixed_weights import FixedWeightAttention
from numformer.layers.attention.efficient.linear import LinearAttention
from numformer.layers.attention.efficient.low_rank import LowRankAttention
from numformer.layers.attention.efficient.sparse import SparseAttention
from numformer.layers.attention.kv_cache import KeyValueCache
from numformer.layers.attention.multi_head import MultiHeadAttention
from numformer.layers.attention.positioned import PositionedAttention
from numformer.layers.attention.score_attention import ScoreAttention
from numformer.layers.attention.self_attention import SelfAttention
from numformer.layers.attention.tiled import TiledAttention
from numformer.layers.batch_norm import BatchNorm
from numformer.layers.blocks.block import TransformerBlock
from numformer.layers.blocks.local import LocalAttentionBranch
from numformer.layers.blocks.parallel import ParallelBlock
from numformer.layers.blocks.plain import PlainBlock
from numformer.layers.blocks.residual import (
    CrossAttentionBranch, ResidualBranch, SelfAttentionBranch)
from numformer.layers.capped_head import SoftCappedLMHead
from numformer.layers.class_heads import ClassHeads
from numformer.layers.convolution import CausalConvolution, GatedConvolution
from numformer.layers.dropout import Dropout, Identity
from numformer.layers.embedding import Embedding
from numformer.layers.feedforward import GEGLU, FeedForward, GatedFeedForward, SwiGLU
from numformer.layers.linear import Linear, LMHead
from numformer.layers.low_rank_linear import LowRankLinear
from numformer.layers.mixture_of_experts import MixtureOfExperts
from numformer.layers.ngram_embedding import NGramEmbedding
from numformer.layers.normalization import LayerNorm, RMSNorm
from numformer.layers.patches import PatchEmbedding
from numformer.layers.pooling import ClassPooler, Pooling
from numformer.layers.positions.alibi import ALiBi
from numformer.layers.positions.concatenated import ConcatenatedPositions
from numformer.layers.positions.in_attention import NoPositions
from numformer.layers.positions.learned import LearnedPositions
from numformer.layers.positions.relative_bias import RelativePositionBias
from numformer.layers.positions.rotary import RotaryPositions
from numformer.layers.positions.shaw import ShawPositions
from numformer.layers.positions.sinusoidal import SinusoidalPositions
from numformer.layers.positions.two_dimensional import (
    LearnedPositions2D, SinusoidalPositions2D)
from numformer.layers.positions.window_bias import WindowPositionBias
from numformer.layers.recurrent.attentive_gru import AttentiveGRU
from numformer.layers.recurrent.bidirectional import Bidirectional
from numformer.layers.recurrent.gru import GRU
from numformer.layers.recurrent.lstm import LSTM
from numformer.layers.recurrent.rnn import RNN
from numformer.layers.swish import GatedSwishFeedForward, Swish, SwishFeedForward
from numformer.layers.vector_quantizer import VectorQuantizer
from numformer.layers.vision.convolution2d import Convolution2D, Pooling2D
from numformer.layers.vision.deformable_attention import DeformableAttention
from numformer.layers.vision.window_attention import PatchMerging, WindowAttention

# All that the modules above define
__all__ = sorted(name for name, value in globals().items()
                 if getattr(value, "__module__", "").startswith(f"{__name__}."))
