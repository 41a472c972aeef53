"""What goes on over the turns of a conversation: its citation numbers, and whether a message asks for a search."""
