"""How attention weights come about, and what a misprint of their equation costs."""

EXPERIMENTS = {}
