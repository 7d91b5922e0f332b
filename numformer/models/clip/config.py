"""The options of CLIP, the configs of its two encoders, and the published sizes by name."""

from dataclasses import dataclass, fields

from numformer.checks import check_divides
from numformer.config import like, option
from numformer.models.decoder.config import DecoderConfig
from numformer.models.transformer import TransformerConfig
from numformer.models.vision_transformer.model import VisionTransformerConfig
from numformer.shapes_only import MOST_ARRAYS


@dataclass(frozen=True, kw_only=True)
class CLIPTextConfig(TransformerConfig):
    """The config of a `CLIPTextEncoder`; the defaults are the paper's."""

    vocab_size: int = like(DecoderConfig, "vocab_size")
    context_length: int = option("Longest text, with its end token.")
    d_embedding: int | None = option(
        "E, the width of the vectors in which texts and images are compared; without it, a text is "
        "the vector of its end token, of width C.", None)
    eos_id: int | None = option(
        "The end token; the token with the largest id of a text unless given.", None, least=0)
    positions: str = option(
        "A trained vector for every position.", "learned", choices=("learned",))
    feedforward: str = "quick_gelu"

    def __post_init__(self):
        super().__post_init__()
        _check_end(self)


@dataclass(frozen=True, kw_only=True)
class CLIPConfig(TransformerConfig):
    """The config of a `CLIP`; the defaults are the paper's.

    The sizes n_layers, n_heads, d_model and d_hidden are those of the image encoder; all other
    options of blocks are of both encoders.

    Examples
    --------
    >>> config = CLIPConfig(image_size=8, patch_size=2, channels=1, vocab_size=30, n_layers=2,
    ...                     context_length=6, n_heads=2, d_model=16, d_embedding=8, text_width=12)
    >>> config.image.d_model, config.text.d_model, config.text.n_layers
    (16, 12, 2)
    """

    image_size: int = like(VisionTransformerConfig, "image_size")
    patch_size: int = like(VisionTransformerConfig, "patch_size")
    channels: int = like(VisionTransformerConfig, "channels")
    vocab_size: int = like(CLIPTextConfig, "vocab_size")
    context_length: int = like(CLIPTextConfig, "context_length")
    d_embedding: int = option(
        "E, the width of the vectors in which texts and images are compared.")
    text_layers: int | None = option(
        "Blocks of the text encoder; as many as in the image encoder unless given.", None,
        most=MOST_ARRAYS)
    text_heads: int | None = option(
        "Heads of a block of the text encoder; as many as in the image encoder unless given.", None)
    text_width: int | None = option(
        "C of the text encoder; that of the image encoder unless given.", None)
    text_hidden: int | None = option(
        "F of the text encoder; by default what d_hidden is by default, for its width.", None)
    eos_id: int | None = like(CLIPTextConfig, "eos_id")
    temperature: float = option(
        "tau at the beginning: logits are cosines over tau.", 0.07, above=0)
    positions: str = option(
        "A trained vector for every token and every patch.", "learned", choices=("learned",))
    feedforward: str = "quick_gelu"

    def __post_init__(self):
        super().__post_init__()
        check_divides("CLIPConfig", "image_size", self.image_size, "patch_size", self.patch_size)
        if self.d_head is None:
            check_divides("CLIPConfig", "text_width", self.text_width or self.d_model,
                          "text_heads", self.text_heads or self.n_heads)
        if self.n_kv_heads is not None:
            check_divides("CLIPConfig", "text_heads", self.text_heads or self.n_heads,
                          "n_kv_heads", self.n_kv_heads)
        _check_end(self)

    @property
    def image(self):
        """The `VisionTransformerConfig` of the image encoder; its classes are coordinates of E."""
        return VisionTransformerConfig(
            **self._blocks(), image_size=self.image_size, patch_size=self.patch_size,
            channels=self.channels, n_classes=self.d_embedding, embedding_norm=True,
            patch_bias=False, head_bias=False)

    @property
    def text(self):
        """The `CLIPTextConfig` of the text encoder."""
        sizes = dict(n_layers=self.text_layers or self.n_layers,
                     n_heads=self.text_heads or self.n_heads,
                     d_model=self.text_width or self.d_model, d_hidden=self.text_hidden)
        return CLIPTextConfig(
            **self._blocks() | sizes, vocab_size=self.vocab_size, eos_id=self.eos_id,
            context_length=self.context_length, d_embedding=self.d_embedding)

    @property
    def optional_sizes(self):
        """Widths and numbers of layers that may be left out, by name, with their defaults."""
        text = self.text
        return {"d_hidden": self.hidden_width, "text_layers": text.n_layers,
                "text_heads": text.n_heads, "text_width": text.d_model,
                "text_hidden": text.hidden_width}

    def _blocks(self):
        """The options that all Transformers have, by name."""
        return {field.name: getattr(self, field.name) for field in fields(TransformerConfig)}


def _check_end(config):
    owner = type(config).__name__
    if config.eos_id is not None and config.eos_id >= config.vocab_size:
        raise ValueError(f"{owner}: eos_id={config.eos_id} must be below vocab_size="
                         f"{config.vocab_size}; leave it out where the end token has the largest "
                         "id of every text.")


_PUBLISHED = dict(channels=3, vocab_size=49408, context_length=77)
CLIP_CONFIGS = {
    name: CLIPConfig(**_PUBLISHED, image_size=size, patch_size=P, d_embedding=E, n_layers=L,
                     n_heads=H, d_model=C, text_layers=12, text_heads=h, text_width=c)
    for name, size, P, E, L, H, C, h, c in (
        # Radford et al. (2021), table 20
        ("clip-base-32", 224, 32, 512, 12, 12, 768, 8, 512),
        ("clip-base-16", 224, 16, 512, 12, 12, 768, 8, 512),
        ("clip-large-14", 224, 14, 768, 24, 16, 1024, 12, 768),
        ("clip-large-14-336", 336, 14, 768, 24, 16, 1024, 12, 768))}
