"""Sequence processing: recurrent cells and sequences, CTC, OneHot, attention."""
