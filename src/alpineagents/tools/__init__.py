"""What an Agent can do besides talking: tools, made from Python functions or written by hand."""
