"""Values in files and in text: what is fed to a model, what comes out of it."""
