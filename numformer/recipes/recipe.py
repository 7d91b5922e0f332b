"""Recipes: what a run of minutes adds to a published architecture.

A model's config holds what a published config holds. Everything else that helps a small model learn
in minutes is a setting of its recipe: initial weights, changes of a layer, the training loss, and
how the data are prepared. A checkpoint stores the recipe next to the model's config.
"""

from dataclasses import dataclass

from numformer.checks import brief
from numformer.config import Config, option
from numformer.layers import Identity, PlainBlock, RotaryPositions
from numformer.models import KINDS


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
    """For models trained with cross-entropy."""

    label_smoothing: float = option(
        "Of the training loss: see `cross_entropy`.", 0.0, least=0, below=1)

    def change(self, model):
        model.label_smoothing = self.label_smoothing


@dataclass(frozen=True, kw_only=True)
class DecoderRecipe(CrossEntropyRecipe):
    """For decoders.

    References
    ----------
    Chowdhery et al. (2022), "PaLM", section 5, for the z-loss. Zhang, Dauphin, Ma (2019), "Fixup
    Initialization", for branches that start at zero.
    """

    z_loss: float = option("Factor of the z-loss: see `cross_entropy`.", 0.0, least=0,
                           below=1e6)
    zero_branches: bool = option(
        "Start the last matrix of every branch at zero, so that a new block is the identity.",
        False)
    skip_connections: bool = option(
        "False replaces every block by a `PlainBlock`, to show what the sums are for.", True)
    norms: bool = option(
        "False leaves out the norms of the blocks and the final one, to show what they are for.",
        True)

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
            model.blocks[:] = [self._changed(block) for block in model.blocks]
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
    """For classifiers on a decoder."""

    lm_weight: float = option(
        "Of the loss of predicting every next token, which is added to that of the classes: see "
        "`DecoderClassifier`.", 0.0, least=0, below=1e6)

    def change(self, model):
        super().change(model)
        model.lm_weight = self.lm_weight


@dataclass(frozen=True, kw_only=True)
class PolicyRecipe(Recipe):
    """For decoders that learn from rewards: how answers are sampled, and what is learned from them.

    References
    ----------
    Shao et al. (2024), "DeepSeekMath": groups. Williams (1992), "Simple Statistical
    Gradient-Following Algorithms", section 2: the baseline.
    """

    samples: int = option("Answers that are sampled for each prompt: a group.", 8, most=2**12)
    updates: int = option("Steps of the optimizer with the answers of a round.", 1, most=2**12)
    baseline: str = option(
        "What a reward is compared with: the mean of its group, divided by the standard deviation "
        "of the group or not; the mean of all; or nothing, which learns from right answers alone.",
        "group", choices=("group", "group-mean", "mean", "none"))
    clip_low: float = option("How far the ratio of a token may fall: see `policy_loss`.", 0.2,
                             least=0, below=1)
    clip_high: float = option("How far it may rise.", 0.2, least=0, below=1e6)
    beta: float = option("Weight of the divergence from the run of --from.", 0.0, least=0,
                         below=1e6)
    normalization: str = option(
        "What the loss is a mean over: answers, each a mean of its own; or all tokens.", "token",
        choices=("sequence", "token"))

    def check(self, config):
        if self.samples == 1 and self.baseline.startswith("group"):
            raise ValueError(f"PolicyRecipe: baseline={self.baseline!r} compares the answers to a "
                             "prompt, but samples=1; use 2 or more.")

    def change(self, model):
        for name in ("clip_low", "clip_high", "beta", "normalization"):
            setattr(model, name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderRecipe(CrossEntropyRecipe):
    """For encoder-decoders."""

    add_rotary: bool = option(
        "Rotate queries and keys in self-attention, in addition to the learned positions.", False)
    special_tokens: dict | None = option(
        "What a published tokenizer calls our '[PAD]', '[BOS]' and '[EOS]'.", None)
    like_to_like: bool = option(
        "Initialize the key weights of cross-attention with its query weights, so that at first "
        "each output token attends to source tokens like itself, such as a sentinel to the same "
        "sentinel.", False)

    def __post_init__(self):
        super().__post_init__()
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
            rotary = RotaryPositions.of_config(model.config)
            for block in (*model.encoder.blocks, *model.blocks):
                block.attention.positions = rotary
        if self.like_to_like:
            for block in model.blocks:
                cross = block.cross_attention
                cross.key.weight.data[:] = cross.query.weight.data


def check_like_to_like(owner, recipe, config):
    """ValueError if `like_to_like` does not fit a model's config."""
    c = config
    if recipe.like_to_like and c.n_kv_heads not in (None, c.n_heads):
        raise ValueError(f"{owner}: like_to_like needs as many key heads as query heads, but "
                         f"n_kv_heads={c.n_kv_heads} and n_heads={c.n_heads}; "
                         "leave one of them out.")
