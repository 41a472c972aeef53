"""What every engine does with its arguments: records, payloads, filters and words as the engine keeps them."""
