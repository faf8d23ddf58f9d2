"""Operations on images: Interpolate, GridSample, conversion of colours."""
