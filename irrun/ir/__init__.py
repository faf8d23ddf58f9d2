"""What a model file says: reads, checks and writes it; does no arithmetic."""
