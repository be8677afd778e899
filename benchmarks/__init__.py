"""Scripts that print ratios against peers in one run."""
