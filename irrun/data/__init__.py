"""Loading of inputs and saving of outputs."""
