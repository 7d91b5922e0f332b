"""Recipes: what a run of minutes adds to a published architecture.

A model's config holds what a published config holds. Everything else that helps a small model learn
in minutes is a setting of its recipe: initial weights, changes of a layer, the training loss, and
how the data are prepared. A checkpoint stores the recipe next to the model's config.
"""

from dataclasses import dataclass
from reprlib import repr as brief

from numformer.checks import check_choice, check_number, check_whole
from numformer.config import Config
from numformer.layers import Identity, NoPositions, PlainBlock
from numformer.models import KINDS
from numformer.models.transformer import rotary_of


@dataclass(frozen=True)
class Recipe(Config):
    """A recipe that adds nothing: the model is what its config says."""

    def model(self, kind, config, rng):
        """The model of a config, changed as the recipe says.

        Parameters
        ----------
        kind : str
            A name in `numformer.models.KINDS`.
        config : dataclass
            Of a model of that kind.
        rng : numpy.random.Generator
            Samples the initial weights.

        Raises
        ------
        ValueError
            If the recipe does not fit the config.
        """
        self.check(config)
        model = KINDS[kind][0](config, rng)
        self.change(model)
        return model

    def check(self, config):
        """ValueError if the recipe does not fit a model's config."""

    def change(self, model):
        """Change a new model."""


@dataclass(frozen=True, kw_only=True)
class CrossEntropyRecipe(Recipe):
    """For models trained with cross-entropy.

    Parameters
    ----------
    label_smoothing : float in [0, 1)
        Of the training loss: see `cross_entropy`.
    """

    label_smoothing: float = 0.0

    def __post_init__(self):
        check_number(type(self).__name__, "label_smoothing", self.label_smoothing, least=0, below=1)

    def change(self, model):
        model.label_smoothing = self.label_smoothing


@dataclass(frozen=True, kw_only=True)
class DecoderRecipe(CrossEntropyRecipe):
    """For decoders.

    Parameters
    ----------
    z_loss : float
        Of the training loss: see `cross_entropy`.
    zero_branches : bool
        Start the last matrix of every branch at zero, so that a new block is the identity.
    skip_connections : bool
        False replaces every block by a `PlainBlock`, to show what the sums are for.
    norms : bool
        False leaves out the norms of the blocks and the final one, to show what they are for.

    References
    ----------
    Chowdhery et al. (2022), "PaLM", section 5, for the z-loss. Zhang, Dauphin, Ma (2019), "Fixup
    Initialization", for branches that start at zero.
    """

    z_loss: float = 0.0
    zero_branches: bool = False
    skip_connections: bool = True
    norms: bool = True

    def __post_init__(self):
        super().__post_init__()
        check_number("DecoderRecipe", "z_loss", self.z_loss, least=0)
        for name in ("zero_branches", "skip_connections", "norms"):
            check_choice("DecoderRecipe", name, getattr(self, name), [True, False])

    def check(self, config):
        if config.parallel_residual and not self.skip_connections:
            raise ValueError("DecoderRecipe: skip_connections=False is for sublayers in sequence, "
                             "but parallel_residual=True; leave one of them out.")

    def change(self, model):
        super().change(model)
        model.z_loss = self.z_loss
        if not self.norms:
            model.norm = Identity()
        if not (self.norms and self.skip_connections):
            model.blocks = [self._changed(block) for block in model.blocks]
        if self.zero_branches:
            for block in model.blocks:
                feedforwards = getattr(block.feedforward, "experts", [block.feedforward])
                for branch in (block.attention, *feedforwards):
                    branch.output.weight.data[:] = 0

    def _changed(self, block):
        """A block of the same branches, without norms or without skip connections."""
        for branch in () if self.norms else block.branches.values():
            branch.input_norm = branch.output_norm = branch.sum_norm = Identity()
        return (type(block) if self.skip_connections else PlainBlock)(**block.branches)


@dataclass(frozen=True, kw_only=True)
class DecoderClassifierRecipe(CrossEntropyRecipe):
    """For classifiers on a decoder.

    Parameters
    ----------
    lm_weight : float
        Of the loss of predicting every next token, which is added to that of the classes: see
        `DecoderClassifier`.
    """

    lm_weight: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        check_number("DecoderClassifierRecipe", "lm_weight", self.lm_weight, least=0)

    def change(self, model):
        super().change(model)
        model.lm_weight = self.lm_weight


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderRecipe(CrossEntropyRecipe):
    """For encoder-decoders.

    Parameters
    ----------
    add_rotary : bool
        Rotate queries and keys in self-attention, in addition to the learned positions.
    like_to_like : bool
        Initialize the key weights of cross-attention with its query weights, so that at first each
        output token attends to source tokens like itself, such as a sentinel to the same sentinel.
    special_tokens : dict, optional
        What a published tokenizer calls our "[PAD]", "[BOS]" and "[EOS]".
    """

    add_rotary: bool = False
    special_tokens: dict | None = None
    like_to_like: bool = False

    def __post_init__(self):
        super().__post_init__()
        for name in ("add_rotary", "like_to_like"):
            check_choice("EncoderDecoderRecipe", name, getattr(self, name), [True, False])
        names = self.special_tokens
        if names is not None and not (
                isinstance(names, dict) and names.keys() == {"[PAD]", "[BOS]", "[EOS]"}
                and all(isinstance(name, str) for name in names.values())):
            raise ValueError(f"EncoderDecoderRecipe: special_tokens={brief(names)} must be a dict "
                             "with the names of '[PAD]', '[BOS]' and '[EOS]'.")

    def check(self, config):
        check_like_to_like("EncoderDecoderRecipe", self, config)
        if self.add_rotary and config.positions != "learned":
            raise ValueError("EncoderDecoderRecipe: add_rotary is for positions='learned', but "
                             f"they are {config.positions!r}; leave one of them out.")
        if self.add_rotary and config.d_rotary is None and config.head_width % 2:
            raise ValueError("EncoderDecoderRecipe: rotary positions need heads of even width, but "
                             f"they have width {config.head_width}; use another n_heads.")

    def change(self, model):
        super().change(model)
        if self.add_rotary:
            rotary = rotary_of(model.config)
            for block in (*model.encoder.blocks, *model.blocks):
                block.attention.positions = rotary
        if self.like_to_like:
            for block in model.blocks:
                cross = block.cross_attention
                cross.key.weight.data[:] = cross.query.weight.data


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


def check_like_to_like(owner, recipe, config):
    """ValueError if `like_to_like` does not fit a model's config."""
    c = config
    if recipe.like_to_like and c.n_kv_heads not in (None, c.n_heads):
        raise ValueError(f"{owner}: like_to_like needs as many key heads as query heads, but "
                         f"n_kv_heads={c.n_kv_heads} and n_heads={c.n_heads}; "
                         "leave one of them out.")


RECIPES = {                                                           # by kind of model
    "Bert": BertRecipe,
    "BertClassifier": BertEncoderRecipe,
    "BertSpanClassifier": BertEncoderRecipe,
    "BertTokenClassifier": BertEncoderRecipe,
    "ConvolutionClassifier": CrossEntropyRecipe,
    "Decoder": DecoderRecipe,
    "DecoderClassifier": DecoderClassifierRecipe,
    "EncoderDecoder": EncoderDecoderRecipe,
    "NGramDecoder": DecoderRecipe,
    "SentenceBert": BertEncoderRecipe,
    "Seq2Seq": CrossEntropyRecipe,
    "Swin": CrossEntropyRecipe,
    "VisionTransformer": CrossEntropyRecipe,
}


def recipe_of(kind, settings):
    """The recipe of a kind of model, with these settings: a dict.

    Examples
    --------
    >>> recipe_of("Decoder", {"zero_branches": True})  # doctest: +NORMALIZE_WHITESPACE
    DecoderRecipe(label_smoothing=0.0, z_loss=0.0, zero_branches=True, skip_connections=True,
                  norms=True)
    >>> recipe_of("RecurrentLanguageModel", {})
    Recipe()
    """
    return RECIPES.get(kind, Recipe).from_dict(settings)
