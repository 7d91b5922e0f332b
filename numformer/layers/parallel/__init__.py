"""One layer on several processes: for reading, and to show what very large models do."""
