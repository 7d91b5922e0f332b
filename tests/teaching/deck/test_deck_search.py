"""What a lecturer types is found on the slide that has it: names, products, acronyms, examples."""

import tomllib
from pathlib import Path

import pytest

from marks import every
from numformer.teaching import deck as table
from numformer.teaching.deck import DECKS
from numformer.teaching.deck.search import search

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


@pytest.mark.parametrize("letter, line", every(3, [
    (letter, line) for letter in TYPED for line in TYPED[letter]]))
def test_what_a_lecturer_types_finds_the_slide(letter, line):
    deck = DECKS[letter]
    for words in TYPED[letter][line].split(", "):
        assert deck.row_at(line) in search(words)[0], words


def test_a_word_that_no_slide_has_is_not_found():
    for words in ("hardmary", "BLOOM-176B", "thinking bank"):
        with pytest.raises(LookupError, match=f"no row of the map names {words}"):
            search(words)


@pytest.mark.parametrize("letter", DECKS)
def test_keywords_are_short_and_on_lines_of_the_deck(letter):
    deck, lines = DECKS[letter], [int(line) for line in KEYWORDS[letter]]
    assert lines == sorted(lines) and 1 <= lines[0] and lines[-1] <= deck.n_lines
    for line, words in KEYWORDS[letter].items():
        assert words and set(words) <= set(deck.row_at(int(line)).keywords)
        assert all(len(word) <= 40 for word in words)
