"""What several verbs share: runs, trainers, flags, pictures and output."""
