"""Side-by-side runs, each a command that prints what it measured."""
