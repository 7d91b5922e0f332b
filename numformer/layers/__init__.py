"""Classes that own parameters and wire the functions together; see `numformer.parameter.Layer` for their contract."""

from numformer.layers.attention import MultiHeadAttention
from numformer.layers.attentive_gru import AttentiveGRU
from numformer.layers.batch_norm import BatchNorm
from numformer.layers.bert_heads import ClassPooler, MaskedTokenHead
from numformer.layers.bidirectional import Bidirectional
from numformer.layers.block import PostNormBlock, PreNormBlock, TransformerBlock
from numformer.layers.cache import KeyValueCache
from numformer.layers.convolution import CausalConvolution, GatedConvolution
from numformer.layers.cross_block import PostNormCrossBlock, PreNormCrossBlock
from numformer.layers.dropout import Dropout, Identity
from numformer.layers.embedding import Embedding, NGramEmbedding
from numformer.layers.feedforward import GEGLU, FeedForward, GatedFeedForward, SwiGLU
from numformer.layers.linear import Linear, Unembedding
from numformer.layers.mixture_of_experts import MixtureOfExperts
from numformer.layers.normalization import LayerNorm, RMSNorm
from numformer.layers.patches import PatchEmbedding
from numformer.layers.pooling import Pooling
from numformer.layers.positions import ALiBi, ConcatenatedPositions, LearnedPositions, RotaryPositions, SinusoidalPositions
from numformer.layers.positions_2d import LearnedPositions2D, SinusoidalPositions2D
from numformer.layers.recurrent import GRU, LSTM, RNN
from numformer.layers.relative_positions import RelativePositionBias, ShawPositions
from numformer.layers.score_attention import ScoreAttention

__all__ = [
    "ALiBi", "AttentiveGRU", "BatchNorm", "Bidirectional", "CausalConvolution", "ClassPooler", "ConcatenatedPositions", "Dropout",
    "Embedding", "FeedForward", "GEGLU", "GRU", "GatedConvolution", "GatedFeedForward", "Identity", "KeyValueCache", "LSTM",
    "LayerNorm", "LearnedPositions", "LearnedPositions2D", "Linear", "MaskedTokenHead", "MixtureOfExperts", "MultiHeadAttention",
    "NGramEmbedding", "PatchEmbedding", "Pooling", "PostNormBlock", "PostNormCrossBlock", "PreNormBlock", "PreNormCrossBlock",
    "RMSNorm", "RNN", "RelativePositionBias", "RotaryPositions", "ScoreAttention", "ShawPositions", "SinusoidalPositions",
    "SinusoidalPositions2D", "SwiGLU", "TransformerBlock", "Unembedding",
]
