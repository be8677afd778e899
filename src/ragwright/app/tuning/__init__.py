"""Commands that tune: sweep, confirm, tune."""
