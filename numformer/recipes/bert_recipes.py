"""Recipes of BERT: for its backbone in any model, and for its pre-training."""

from dataclasses import dataclass

from numformer.config import option
from numformer.layers import NoPositions
from numformer.recipes.recipe import Recipe, check_like_to_like


@dataclass(frozen=True, kw_only=True)
class BertEncoderRecipe(Recipe):
    """For models with BERT's encoder as their backbone.

    References
    ----------
    Layers without positions between others: Yang et al. (2025), "Rope to Nope and Back Again".
    Queries and keys that are alike at first: Trockman and Kolter (2023), "Mimetic Initialization of
    Self-Attention Layers", here in its simplest form.
    """

    content_layers: int = option(
        "Number of first layers whose attention has no positions: they compare content alone.", 0,
        least=0)
    like_to_like: bool = option(
        "Initialize the key weights with the query weights, so that at first each token attends to "
        "tokens like itself.", False)

    def check(self, config):
        c, owner = config, type(self).__name__
        if self.content_layers > c.n_layers:
            raise ValueError(f"{owner}: content_layers={self.content_layers} must be at most "
                             f"n_layers={c.n_layers}.")
        check_like_to_like(owner, self, c)

    def change(self, model):
        blocks = model.backbone.encoder.blocks
        for block in blocks[:self.content_layers]:
            block.attention.positions = NoPositions()
        if self.like_to_like:
            for block in blocks:
                block.attention.key.weight.data[:] = block.attention.query.weight.data


@dataclass(frozen=True, kw_only=True)
class BertRecipe(BertEncoderRecipe):
    """For pre-training BERT."""

    mask_rate: float = option(
        "Fraction of the tokens that are masked: see `mask_tokens`.", 0.15, above=0, below=1)
    dynamic_masks: bool = option(
        "Mask other tokens in every step (RoBERTa), or always the same (BERT).", False)
    repeat_steps: int = option(
        "Over the first `repeat_steps` steps, ever fewer batches repeat a part of the first "
        "passage as the second: see `Curriculum`. 0 for none.", 0, least=0)
