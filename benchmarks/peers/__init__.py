"""Other tools on the same tasks, in environments of their own."""
