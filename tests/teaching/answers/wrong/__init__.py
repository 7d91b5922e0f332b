"""Wrong answers, a page for each family."""
