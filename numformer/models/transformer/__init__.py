"""What Transformers share. Together with these modules, the folder of a family is complete.

    config             start here: the options; `experts` and `local_layers` add some
    parts              layers built from them: norms, attention, feed-forwards, blocks
    input_embedding    what is below the first block
    stack              blocks, walked forward, and backward in reverse
    encoder            a stack in which every vector may attend to every other
    loss               cross-entropy; `loss_parts` for a loss of several means
    pretrained         weights of a backbone, for a model that is fine-tuned
    padding            which positions are tokens
    batch_norms        BatchNorms in an encoder, for comparison
"""

from numformer.models.transformer.batch_norms import BatchNormsOfCall, running_statistics
from numformer.models.transformer.config import POSITIONS, TransformerConfig
from numformer.models.transformer.encoder import Encoder, EncoderConfig
from numformer.models.transformer.experts import ExpertsConfig, feedforwards_of
from numformer.models.transformer.input_embedding import InputEmbedding
from numformer.models.transformer.local_layers import LocalLayersConfig
from numformer.models.transformer.loss import CrossEntropyModel
from numformer.models.transformer.loss_parts import (
    LossOfParts, counts_with_experts, for_each_part, has_targets, loss_counts, n_counted)
from numformer.models.transformer.padding import real_positions
from numformer.models.transformer.parts import (
    attention_of, block_of, embedding_of, feedforward_of, final_norm_of, fixed_attention_of,
    norm_of, positions_of, shared_positions_of)
from numformer.models.transformer.stack import Stack, stack_of

__all__ = [
    "BatchNormsOfCall", "CrossEntropyModel", "Encoder", "EncoderConfig", "ExpertsConfig",
    "InputEmbedding", "LocalLayersConfig", "LossOfParts", "POSITIONS", "Stack",
    "TransformerConfig", "attention_of", "block_of", "counts_with_experts", "embedding_of",
    "feedforward_of", "feedforwards_of", "final_norm_of", "fixed_attention_of",
    "for_each_part", "has_targets", "loss_counts", "n_counted", "norm_of", "positions_of",
    "real_positions", "running_statistics", "shared_positions_of", "stack_of"]
