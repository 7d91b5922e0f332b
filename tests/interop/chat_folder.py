"""A small published chat model: a LLaMA of random weights, with BOS, two ends and a template."""

import json

import numpy as np
import pytest

from command import call
from numformer.data import BytePairTokenizer
from numformer.data.tokenizers.published import published
from numformer.data.tokenizers.published.pipeline import PublishedTokenizer
from numformer.interop import save
from numformer.models import Decoder, DecoderConfig
from numformer.models.decoder.config import LLAMA

TEXT = "the quick brown fox jumps over the lazy dog, and\nthe dog sleeps on.\n" * 60
SPECIAL = ("<|im_start|>", "<|im_end|>", "<s>")
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
          "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
          "{{ '<|im_start|>assistant\n' }}{% endif %}")


def tokenizer_of():
    """Byte pairs, with BOS before every text."""
    facts = published(BytePairTokenizer.of(TEXT, 60, SPECIAL, split="gpt2", order="gpt2")
                      ).description
    bos = facts["model"]["vocab"]["<s>"]
    start = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB"))
    return PublishedTokenizer(facts | {"post_processor": {
        "type": "TemplateProcessing", "single": [start, first], "pair": [start, first, second],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [bos], "tokens": ["<s>"]}}}})


def write(folder, name, facts):
    (folder / name).write_text(facts if isinstance(facts, str) else json.dumps(facts))


@pytest.fixture
def chat_folder(tmp_path, monkeypatch):
    """A LLaMA whose texts end soon."""
    monkeypatch.chdir(tmp_path)
    tokenizer = tokenizer_of()
    config = DecoderConfig(**{**LLAMA, "vocab_size": len(tokenizer), "context_length": 64,
                              "n_layers": 2, "n_heads": 2, "d_model": 16, "init_std": 0.5})
    model = Decoder(config, np.random.default_rng(3))
    save(model, tokenizer, tmp_path / "published", "llama")
    ids = {name: tokenizer.special_id(name) for name in SPECIAL}
    write(tmp_path / "published", "generation_config.json",
          {"bos_token_id": ids["<s>"], "eos_token_id": [ids["<|im_end|>"], ids["<|im_start|>"]]})
    write(tmp_path / "published", "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "chat_template": CHATML,
        "eos_token": {"__type": "AddedToken", "content": "<|im_end|>", "lstrip": False},
        "model_max_length": 1000000000000000019884624838656, "pad_token": "<|im_end|>"})
    return tmp_path / "published"


@pytest.fixture
def chat_run(chat_folder, capsys):
    status, _, err = call(capsys, "import", chat_folder, "--out", "run")
    assert status == 0, err
    return chat_folder.parent / "run"
