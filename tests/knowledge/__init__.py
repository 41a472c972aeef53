"""Of the KnowledgeBase."""
