"""The verbs for published weights."""
