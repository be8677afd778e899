"""Other tools at the same work, in an environment of their own."""
