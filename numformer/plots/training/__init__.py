"""Training runs: curves of one run, several runs compared, how the time of a step grows."""
