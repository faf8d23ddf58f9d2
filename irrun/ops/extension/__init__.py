"""Operations outside the numbered opsets, as OpenVINO's own passes write them into files."""
