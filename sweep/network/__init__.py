"""The exact N-server network SQ(d)."""
