"""What the documents show works."""
