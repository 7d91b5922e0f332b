"""Generation: sampling, greedy search and beam search, with KV caches."""

from numformer.generation.answers import Answers, sample_answers
from numformer.generation.beam_search import beam_search, beam_search_prompts
from numformer.generation.greedy_search import greedy_search
from numformer.generation.pooled_beam_search import pooled_beam_search
from numformer.generation.sampling import (
    check_sampling, choose_token, choose_tokens, context_start, generate, generate_batch)
from numformer.generation.smaller_weights import rounded_weights

__all__ = [
    "Answers", "beam_search", "beam_search_prompts", "check_sampling", "choose_token",
    "choose_tokens", "context_start", "generate", "generate_batch", "greedy_search",
    "pooled_beam_search", "rounded_weights", "sample_answers",
]
