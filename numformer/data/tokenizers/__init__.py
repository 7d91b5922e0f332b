"""Tokenizers: from text to ids and back, by characters, words or byte pairs."""
