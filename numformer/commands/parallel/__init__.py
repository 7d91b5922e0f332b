"""Training over the ranks of MPI: what they do together, and how they notice that one has died."""
