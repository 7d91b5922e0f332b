"""What a model is made of, and how large models have become."""
