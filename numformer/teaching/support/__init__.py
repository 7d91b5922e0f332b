"""What helps a student between a wrong answer and a right one: hints, credit, and a record."""
