"""The tools of agentic mode, one module each; `table` says which there are."""
