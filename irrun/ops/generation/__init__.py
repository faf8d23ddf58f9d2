"""Operations that make tensors: Range, Eye, RandomUniform, Multinomial."""
