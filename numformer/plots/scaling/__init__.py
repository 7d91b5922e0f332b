"""How loss, time and memory change with length, size, data and operations."""
