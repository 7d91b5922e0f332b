"""BERT (Devlin et al. 2018), RoBERTa and ModernBERT, and what is put on their encoder.

    encoder             start here: options, embeddings, and a stack of encoder blocks
    model               masked tokens and the next sentence: pretraining; the published sizes
    prediction_head     a map, GELU and a norm below logits
    classifier          a class for a text
    token_classifier    a label for every token: parts of speech, entities
    span_classifier     the first and the last token of an answer
    sentence_bert       one vector for a sentence

`bert_weights`, `classifier_weights`, `modernbert_weights` and `sentence_weights` are tables of
published weights.
"""
