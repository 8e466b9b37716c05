"""The table of reasoning: encoder, executor and mixture side by side."""
