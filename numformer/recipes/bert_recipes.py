"""Recipes of BERT: for its backbone in any model, and for its pre-training."""

from dataclasses import dataclass

from numformer.checks import check_choice, check_number, check_whole
from numformer.layers import NoPositions
from numformer.recipes.recipe import Recipe, check_like_to_like


@dataclass(frozen=True, kw_only=True)
class BertEncoderRecipe(Recipe):
    """For models with BERT's encoder as their backbone.

    Parameters
    ----------
    content_layers : int
        Number of first layers whose attention has no positions: they compare content alone.
    like_to_like : bool
        Initialize the key weights with the query weights, so that at first each token attends to
        tokens like itself.

    References
    ----------
    Layers without positions between others: Yang et al. (2025), "Rope to Nope and Back Again".
    Queries and keys that are alike at first: Trockman and Kolter (2023), "Mimetic Initialization of
    Self-Attention Layers", here in its simplest form.
    """

    content_layers: int = 0
    like_to_like: bool = False

    def __post_init__(self):
        owner = type(self).__name__
        check_whole(owner, "content_layers", self.content_layers, least=0)
        check_choice(owner, "like_to_like", self.like_to_like, [True, False])

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
    """For pre-training BERT.

    Parameters
    ----------
    mask_rate : float in (0, 1)
        Fraction of the tokens that are masked: see `mask_tokens`.
    dynamic_masks : bool
        Mask other tokens in every step (RoBERTa), or always the same (BERT).
    repeat_steps : int
        Over so many first steps, ever fewer batches repeat a part of the first passage as the
        second: see `Curriculum`. 0 for none.
    """

    mask_rate: float = 0.15
    dynamic_masks: bool = False
    repeat_steps: int = 0

    def __post_init__(self):
        super().__post_init__()
        check_number("BertRecipe", "mask_rate", self.mask_rate, above=0, below=1)
        check_choice("BertRecipe", "dynamic_masks", self.dynamic_masks, [True, False])
        check_whole("BertRecipe", "repeat_steps", self.repeat_steps, least=0)
