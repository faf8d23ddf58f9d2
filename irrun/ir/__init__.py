"""Reading, validating and writing of models, without any computation."""
