"""Pre-trained weights for a model that is fine-tuned: those of its backbone."""

from dataclasses import fields

from numformer.models.bert.encoder import BertEncoderConfig
from numformer.models.decoder.config import DecoderConfig


def load_pretrained_backbone(model, pretrained):
    """Copy the weights of a pretrained model's backbone, and of its pooler where both have
    one of a kind.

    The backbone of a `Decoder` is the decoder itself; of positions that it has learned, the first
    are taken if the model's context is shorter.

    Raises
    ------
    ValueError
        If the backbones differ in shape; then nothing is copied.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.models import Bert, BertConfig, SentenceBert, SentenceBertConfig
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> bert, rng = Bert(BertConfig(**sizes), np.random.default_rng(0)), np.random.default_rng(1)
    >>> model = SentenceBert(SentenceBertConfig(**sizes), rng)
    >>> load_pretrained_backbone(model, bert)
    >>> ids = np.array([[1, 5, 2]])
    >>> bool((model.backbone(ids) == bert(ids)).all())
    True
    """
    state = getattr(pretrained, "backbone", pretrained).state_dict()
    for name, parameter in model.backbone.named_parameters():
        if name.endswith("positions.weight") and name in state:
            state[name] = state[name][:len(parameter.data)]
    model.backbone.load_state_dict(state)
    poolers = [getattr(each, "pooler", None) for each in (model, pretrained)]
    if None not in poolers and type(poolers[0]) is type(poolers[1]):
        poolers[0].load_state_dict(poolers[1].state_dict())


def backbone_options(config):
    """The options of a config that its backbone depends on, but dropout, a training setting."""
    kind = BertEncoderConfig if isinstance(config, BertEncoderConfig) else DecoderConfig
    names = [field.name for field in fields(kind) if field.name != "dropout"]
    return {name: getattr(config, name) for name in names}
