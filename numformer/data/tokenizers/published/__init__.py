"""Published tokenizers: the tokenizer.json of a folder, and the older files of GPT-2 and BERT."""

from numformer.data.tokenizers.published.files import load_tokenizer, published, save_tokenizer
from numformer.data.tokenizers.published.pipeline import PublishedTokenizer

__all__ = ["PublishedTokenizer", "load_tokenizer", "published", "save_tokenizer"]
