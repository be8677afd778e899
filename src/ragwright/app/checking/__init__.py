"""Commands that check what can be relied on: judges, answers, documents."""
