"""Detection operations: priors, proposals, pooling of regions, decoding of detections."""
