"""What attention heads do: the patterns that their weights follow."""
