"""Writing with a trained model: token after token, with a cache of what was read and written so far."""

from numformer.generation.answering import write_greedily
from numformer.generation.beam_search import beam_search
from numformer.generation.sampling import check_sampling, choose_token, context_start, generate, generate_batch

__all__ = ["beam_search", "check_sampling", "choose_token", "context_start", "generate", "generate_batch", "write_greedily"]
