"""``starqe ask``: one question or a conversation."""
