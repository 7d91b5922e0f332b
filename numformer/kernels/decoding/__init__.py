"""One token through a decoder, compiled."""
