"""Sort operations: TopK, SearchSorted, and the suppression of overlapping boxes."""
