"""Bodies whose parameters each stand in a tag: the reader, its tags, and where a value ends."""
