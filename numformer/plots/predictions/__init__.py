"""Pictures of what a language model predicts: the next token, and the loss of a text."""
