"""What a lecturer types is found on the slide that has it: names, products, acronyms, examples."""

import tomllib
from pathlib import Path

import pytest

from marks import every
from numformer.teaching import deck as table
from numformer.teaching.deck import DECKS
from numformer.teaching.deck.search import layers_named, search, with_layer
from numformer.teaching.deck.words import Text, parts, stem

KEYWORDS = tomllib.loads(
    Path(table.__file__).with_name("keywords.toml").read_text(encoding="utf-8"))
# deck: line of its text, what is typed there, with commas between searches
TYPED = {
    "A": {
        5: "seq2seq, RNN", 11: "Bahdanau, ICLR", 53: "variance, sqrt",
        95: "permutation equivariant",
        97: "mask, minus infinity", 99: "abcde", 158: "W_O", 176: "head dim", 218: "QKV",
        238: "O(N^2)", 244: "FlashAttention, flash attention, O(N)", 256: "CNN", 264: "matmuls",
        278: "Vaswani, NeurIPS", 286: "Ba 2016, LayerNorm, gamma", 354: "FC layer", 381: "213M",
        383: "GPT-2, Radford, 1.5B", 388: "GPT-3, Brown 2020, 175B", 406: "lookup table",
        410: "cross-entropy", 411: "translation", 416: "ViT", 420: "224x224x3", 425: "16x16",
        431: "average pool", 441: "masking", 457: "Dosovitskiy, 16x16 words", 463: "conv",
        467: "pre-norm, identity", 483: "Baevski, Auli, adaptive input", 487: "RMSNorm",
        501: "Zhang, Sennrich", 518: "SwiGLU", 528: "8D/3", 532: "Shazeer",
        536: "LSTM, forget gate",
        538: "MoE, mixture of experts", 546: "router, active experts",
        551: "GPT-4o, GPT4o, GPT-4.5, Claude, Gemini, LLMs"},
    "B": {
        3: "LLMs, INFO-I590", 7: "Jisun An", 9: "RNNs, unrolled", 19: "vanishing, exploding",
        36: "Vaswani, machine translation", 51: "mBART, MBART, T5", 56: "LLaMA, GPT, decoder-only",
        73: "subwords", 88: "big dog", 100: "Kazemnejad, sinusoidal", 116: "Shaw, extrapolate",
        129: "RoPE, Su 2021", 135: "imaginary numbers", 143: "black cat", 155: "bank",
        173: "river bank, deposited money", 191: "Bahdanau", 197: "Cheng, Cheng 2016",
        212: "information retrieval", 260: "Luong, dot product",
        276: "head_dim, nn.Linear, PyTorch",
        293: "torch.nn.functional, is_causal", 308: "stocking, robber, small business",
        313: "syntax, semantics", 332: "thinking machines, alammar, illustrated transformer",
        382: "token_embed_dim, nn.Module", 413: "data leakage, triangular", 425: "Ba 2016",
        444: "RMSNorm, Sennrich", 454: "Kaiming, ResNet", 466: "Xiong, pre-LN", 487: "ReLU",
        491: "SiLU, Swish, Hendrycks, Gimpel", 532: "NLU", 535: "NLG", 541: "BERT, Devlin",
        547: "MLM", 550: "ModernBERT, Warner", 554: "SBERT, Reimers, Gurevych, siamese",
        559: "semantic search, clustering, QA", 563: "T5, Raffel", 566: "Summarize",
        570: "Yenduri, GPT", 584: "LLaMA", 594: "Transformer++, 10x", 602: "OpenAI, Meta",
        605: "annotated transformer", 609: "Ashish Vaswani, Niki Parmar",
        613: "Sasha Rush, Harvard"},
    "C": {
        5: "Yang You, NUS", 15: "Bindu Reddy, Twitter, CNNs", 24: "tinkerer", 36: "NLP, fine-tune",
        41: "100B", 42: "PaLM, Switch Transformer, GPT-3, BERT", 46: "TPUs, GPUs", 57: "CPU, TPU",
        80: "threads", 84: "Sutskever, parallel computers", 147: "2 heads", 169: "it, French",
        175: "local, global", 182: "hardmaru, AK47, AK-47, LSTMs", 223: "Esser, image synthesis",
        224: "Sun, multi-object tracking", 225: "Hsiao, music", 226: "Huang, dance",
        227: "Bhattacharyya, 3D object detection", 228: "Guo, point cloud",
        229: "Lim, time series, forecasting", 230: "Zhang, vision-language", 231: "Liu, lanes",
        232: "Zhu, object detection", 241: "English to French", 265: "grammar", 273: "GPT",
        279: "BERT", 310: "backpropagation through time, long-range", 319: "memory cells",
        341: "permutation-invariant, set", 425: "sin, cos", 439: "Vaswani, Uszkoreit",
        456: "Google Brain, Toronto", 489: "N=6", 616: "BatchNorm", 644: "covariate shift",
        734: "global attention", 741: "local attention", 761: "ViT, Swin, DETR", 763: "CLIP",
        770: "LSTM, CNN, RNN", 774: "CS231n, Stanford", 776: "Michigan, EECS", 777: "NYU, Fergus"},
    "D": {
        7: "Setpal, Purdue", 20: "neuron", 27: "logit, pre-activation", 35: "dot product",
        52: "activation", 73: "latent", 85: "embedding, look-up table", 91: "picnic, river bank",
        112: "Markov, n-gram", 172: "RNN", 220: "long-term memory",
        224: "distill, Olah, Carter, attentional interfaces, augmented RNNs", 246: "weighted mean",
        268: "database", 328: "softmax", 332: "permutation invariant", 340: "1E4, sinusoids",
        356: "NER, POS", 368: "MHA, Concat", 453: "factor of 4, ReLU", 457: "vanishing gradients",
        467: "skip connections", 476: "residual stream", 496: "context window", 502: "GPU",
        524: "causal mask"},
    "E": {
        3: "attention layer", 139: "self-attention", 313: "permuting", 508: "equivariant, sets",
        566: "concatenate, positional encoding", 589: "look ahead", 621: "language modeling",
        649: "multihead", 683: "Vaswani", 770: "ReLU, FFN", 790: "context aggregation, global",
        808: "Alammar, thinking machines", 810: "She, He, Vig, BertViz", 839: "mask matrix",
        847: "cross-attention", 882: "vocabulary", 899: "convolution", 973: "visualization",
        984: "Radford, Sutskever, GPT, OpenAI", 996: "Devlin, Toutanova, BERT", 1015: "MLM, masked",
        1024: "NSP", 1046: "question answering, NLI, language inference", 1050: "[CLS], classifier",
        1066: "BERT base, 110 million", 1073: "BERT large, 340 million", 1082: "RoBERTa",
        1084: "TinyBERT", 1091: "mBERT, multilingual, 104 languages, zero-shot",
        1095: "BioBERT, SciBERT, BERTweet, FinBERT", 1121: "BooksCorpus, Books1, 117 million",
        1129: "GPT-2, 40GB, 1.5 billion", 1137: "GPT-3, 570GB, 175 billion",
        1141: "few-shot, prompt",
        1145: "GPT-4, 100 trillion", 1149: "multimodal, reasoning, NLG"},
}


# what is typed > the place of the row that must come first
FIRST = dict(pair.strip().split(" > ") for pair in """
    W_O > A 8; KV cache > D 50-52; teacher forcing > D 52-53; BPE > B 8; tokenization > B 8;
    tokenizer > B 8; sliding window > C 64; autoregressive > C 25; attention map > B 41;
    positional encoding > C 41; positional encodings > C 41; permutation > E 13;
    permutation equivariance > E 19; saturation > C 62; saturate > C 62; next token > D 52-53;
    next-token prediction > A 18; self-attention > A 6; causal mask > E 22;
    flash attention > A 9; RoPE > B 13; rotary > B 13; vanishing gradients > D 46;
    square root > A 5; why sqrt > A 5; cross-attention > B 19; cross attention > B 19;
    layer norm > A 12; LayerNorm > A 12; layer normalization > A 12; batch norm > C 54-55;
    residual connection > B 46; residual connections > B 46; skip connection > D 47-48;
    SwiGLU > A 22; mixture of experts > A 23; [CLS] > E 68; zero-shot > E 71; few-shot > E 76;
    in-context learning > E 76; beam search > C 25; GPT-2 > E 75; GPT-3 > E 76; Xiong > B 47;
    annotated transformer > B 64; look ahead > E 22; triangular mask > B 39-40;
    identity function > A 20; fine-tuning > E 66; pre-training > C 3; multihead > C 63;
    multi-head attention > A 7; several heads > A 7; self-attention layer > A 6;
    masked language modelling > B 56; MLM > E 61-62; NSP > E 63; O(N^2) > A 9; O(N) > A 9;
    quadratic > A 10; vision transformer > A 19; ViT > A 19; patch embedding > A 19;
    RMSNorm > A 21; pre-norm > A 20; post-norm > B 47; feed-forward network > E 32;
    MLP > B 48-49; softmax > C 10; cross-entropy > A 18; embedding > B 8;
    residual stream > D 48-49; LSTM > C 35; RNN > B 2; n-gram > D 12-13; bigram > D 12-13;
    word order > B 9; long-range dependencies > B 3; bottleneck > A 1-2; scaling law > C 3;
    temperature > E 46; query key value > B 21; scaled dot-product attention > B 33;
    dot product > D 4; encoder-decoder > C 43; BERT > B 55; T5 > B 59;
    sentence embeddings > B 58; distillation > E 70; object detection > C 21;
    thinking machines > B 37; ALiBi > B 12; extrapolation > B 11; bank > B 15-16; wo > A 8
""".split(";"))


@pytest.mark.parametrize("typed", FIRST)
def test_the_best_row_comes_first(typed):
    assert search(typed)[0][0].place == FIRST[typed]


def test_first_rows_are_asked_for_in_many_words():
    assert len(FIRST) >= 60 and len({*FIRST.values()}) >= 40


@pytest.mark.parametrize("letter, line", every(3, [
    (letter, line) for letter in TYPED for line in TYPED[letter]]))
def test_what_a_lecturer_types_finds_the_slide(letter, line):
    deck = DECKS[letter]
    for words in TYPED[letter][line].split(", "):
        assert deck.row_at(line) in search(words)[0], words


def test_titles_come_before_code_and_code_before_notes():
    def first_field(row, word):
        fields = (row.title, " ".join([*row.typed, *row.keywords]), row.heading,
                  " ".join([*row.formula, *row.code]))
        return next((n for n, text in enumerate(fields) if Text(text).has(word)), len(fields))

    for word in ("softmax", "sinusoidal", "layernorm", "mask", "rotary"):
        on_slides, elsewhere = search(word)
        order = [first_field(row, word) for row in elsewhere]
        assert order == sorted(order) and min(order, default=3) >= 3
        assert first_field(on_slides[0], word) <= 1 and len(on_slides) > 1


def test_words_are_whole():
    """Not the beginnings of others, unless no row has them."""
    assert {row.place for row in search("wo")[0]} == {row.place for row in search("W_O")[0]}
    for row in [*search("W_O")[0], *search("W_O")[1]]:
        assert any(f"{sign}O" in text for sign in ("_", "^") for text in (
            *row.keywords, *row.formula, *(slip.text for slip in row.slips), "W_O"))
    for short in ("att", "sel", "hea"):
        with pytest.raises(LookupError):
            search(short)
    assert search("transla")[0] and not Text("translation").has("transla")


@pytest.mark.parametrize("word, text", [
    ("masking", "masks"), ("permutation", "permuted"), ("saturate", "saturation"),
    ("normalized", "normalization"),
    ("layernorm", "Layer Norm"), ("LayerNorm", "layer_norm"), ("layer-norm", "LayerNorm"),
    ("multihead", "multi-head"), ("multi-head", "multihead"), ("GPT3", "GPT-3"), ("W_O", "W^O"),
    ("wo", "W_O"), ("RNN", "RNNs"), ("rope", "RoPE"), ("selfattention", "self-attention"),
    ("queries", "query"), ("classes", "class"), ("TPUs", "TPU"),
    ("biases", "bias"), ("embed", "embeddings"), ("positional", "positions"),
    ("equivariance", "equivariant"), ("O(N)", "memory O(N)"), ("summaries", "summary")])
def test_forms_of_a_word(word, text):
    assert Text(text).has(word)


@pytest.mark.parametrize("word, text", [
    ("wo", "two words of the world"), ("W_O", "wo"), ("O(N)", "on memory"), ("on", "option"),
    ("att", "attention"), ("token", "broken"), ("encoder", "encoding"), ("loss", "lose"),
    ("norm", "enormous"), ("1", "10 11"), ("head", "ahead")])
def test_other_words_are_not_forms(word, text):
    assert not Text(text).has(word)


def test_parts_and_stems_of_nothing():
    assert parts(" - ") == [] and stem("") == "" and not Text("").has("a")
    assert Text("").phrase_at(["word"]) is None


def test_a_layer_is_found_by_its_functions():
    places = [row.place for row in with_layer("LayerNorm")]
    assert {"A 12", "A 16", "B 7", "B 42-43", "B 44", "B 61", "C 49", "C 52", "C 53", "C 54-55",
            "C 56", "E 27", "E 36"} <= {*places}
    assert "B 2" in {row.place for row in with_layer("RNN")}
    assert {row.place for row in with_layer("Linear")} & {"E 17"}
    for name in layers_named():
        assert with_layer(name)
    assert with_layer("Layer") == with_layer("layernorm") == []


def test_a_word_that_no_slide_has_is_not_found():
    for words in ("hardmary", "BLOOM-176B", "thinking bank"):
        with pytest.raises(LookupError, match=f"no row of the map names {words}"):
            search(words)


@pytest.mark.parametrize("letter", DECKS)
@pytest.mark.parametrize("field", ["keywords", "typed"])
def test_keywords_are_short_and_on_lines_of_the_deck(letter, field):
    table = (KEYWORDS if field == "keywords" else KEYWORDS["typed"])[letter]
    deck, lines = DECKS[letter], [int(line) for line in table]
    assert lines == sorted(lines) and 1 <= lines[0] and lines[-1] <= deck.n_lines
    for line, words in table.items():
        assert words and set(words) <= set(getattr(deck.row_at(int(line)), field))
        assert all(len(word) <= 40 for word in words)


@pytest.mark.slow
@pytest.mark.parametrize("letter", DECKS)
def test_other_names_of_what_is_on_a_slide_find_it(letter):
    for line, words in KEYWORDS["typed"][letter].items():
        for word in words:
            assert DECKS[letter].row_at(int(line)) in search(word)[0][:9], word
